"""ARWKV 7: Qwen 2 with the linear attention of RWKV 7 in place of attention."""

from rwkv7 import time_mix

def layer(x, i, first_v):
    """The new x, and the values of the first layer, which all others mix with theirs."""
    y, first_v = time_mix(rms_norm(x, attn_norm[i], norm_epsilon), i, first_v)
    x = x + linear(time_mix_output[i], y)
    h = rms_norm(x, ffn_norm[i], norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i]), first_v

def model():
    assert head_size > 0 and embedding_length % head_size == 0 and decay_rank > 0 and iclr_rank > 0 and value_rank > 0, "wkv.head_size does not divide embedding_length, or the rank of a matrix is 0"
    x = embed(token_embd, tokens)
    first_v = None
    for i in range(block_count):
        x, first_v = layer(x, i, first_v)
    return logits(linear(output, rms_norm(x, output_norm, norm_epsilon)))

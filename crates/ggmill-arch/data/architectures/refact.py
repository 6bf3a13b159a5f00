"""Refact: a Llama with ALiBi in place of positions."""

def layer(x, i):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal, alibi=8))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""Baichuan: rotary positions, or ALiBi in the model with 40 layers (13B)."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    if block_count == 40:
        o = attention(q, k, v, 1 / sqrt(key_length), causal=causal, alibi=8)
    else:
        q = rope_pairs(q, rope_params)
        k = rope_pairs(k, rope_params)
        o = attention(q, k, v, 1 / sqrt(key_length), causal=causal)
    x = x + linear(attn_output[i], o)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

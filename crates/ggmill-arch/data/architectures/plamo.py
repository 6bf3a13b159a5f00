"""PLaMo: attention and feed-forward layer side by side, on one input."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(q, rope_params, key_length)
    k = rope_halves(k, rope_params, key_length)
    o = attention(q, k, v, 1 / sqrt(key_length), causal=causal)
    return x + linear(attn_output[i], o) + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""LFM2: a short convolution between two gates in most layers, attention in the others."""

def layer(x, i, rope_params):
    x = x + mixed(rms_norm(x, attn_norm[i], rms_norm_epsilon), i, rope_params)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def mixed(h, i, rope_params):
    if block_kv_heads[i] == 0:
        b, c, u = split(linear(shortconv.in_proj[i], h), embedding_length, embedding_length, embedding_length)
        return linear(shortconv.out_proj[i], c * causal_conv(shortconv.conv[i], b * u))
    q = rms_norm(split_heads(linear(attn_q[i], h), heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(linear(attn_k[i], h), block_kv_heads[i]), attn_k_norm[i], rms_norm_epsilon)
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    v = split_heads(linear(attn_v[i], h), block_kv_heads[i])
    return linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), window=first(window, 0)))

def model():
    check_rope()
    assert heads > 0 and key_length > 0 and value_length > 0 and kernel > 0 and causal, "a number or a length of attention heads, or the length of the convolution, is 0, or the model is not causal"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert block_kv_heads[i] == 0 or heads % block_kv_heads[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, token_embd_norm, rms_norm_epsilon)))

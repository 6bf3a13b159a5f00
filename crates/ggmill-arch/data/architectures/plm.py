"""PLM: latent attention, and a squared ReLU."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q_plain, q_rope = split(split_heads(linear(attn_q[i], h), heads), nope_length, rope_length)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), kv_rank, rope_length)
    k, v = split(split_heads(linear(attn_kv_b[i], rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)), heads), nope_length, value_length)
    q_rope = rope_pairs(q_rope, rope_params)
    k_rope = rope_pairs(k_rope, rope_params)
    o = attention(concat(q_plain, q_rope), concat(k, repeat(k_rope, heads)), v, 1 / sqrt(key_length))
    x = x + linear(attn_output[i], o)
    return x + squared_relu_mlp(rms_norm(x, ffn_norm[i], rms_norm_epsilon), ffn_up[i], ffn_down[i])

def model():
    check_rope()
    assert heads > 0 and value_length > 0 and kv_rank > 0 and nope_length >= 1, "a number or a length of attention heads is 0, or rope.dimension_count is not less than the length of a key"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

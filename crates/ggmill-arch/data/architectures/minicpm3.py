"""MiniCPM 3: latent attention, and factors for embeddings, residuals and scores."""

def layer(x, i, rope_params):
    step = 1.4 / sqrt(block_count)
    factors = optional(rope_factors_short)
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = split_heads(linear(attn_q_b[i], rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon)), heads)
    q_plain, q_rope = split(q, nope_length, rope_length)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), kv_rank, rope_length)
    k, v = split(split_heads(linear(attn_kv_b[i], rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)), heads), nope_length, value_length)
    q_rope = rope_halves(q_rope, rope_params, factors=factors)
    k_rope = rope_halves(k_rope, rope_params, factors=factors)
    o = attention(concat(q_plain, q_rope), concat(k, repeat(k_rope, heads)), v, 1 / sqrt(key_length))
    x = x + linear(attn_output[i], o) * step
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i]) * step

def model():
    check_rope()
    assert heads > 0 and value_length > 0 and kv_rank > 0 and first(q_rank, 0) != 0 and nope_length >= 1, "a number or a length of attention heads is 0, or rope.dimension_count is not less than the length of a key"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * 12.0
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon) * (256.0 / embedding_length)))

"""Mistral 3: a Llama, in some models with queries that grow with the position."""

def layer(x, i, rope_params, score_length=0, score_scale=0.0):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(q, rope_params, factors=optional(rope_freqs))
    k = rope_pairs(k, rope_params, factors=optional(rope_freqs))
    q = scale_by_position(q, score_length, score_scale) if score_scale != 0.0 else q
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    score_scale = first(temperature_scale, 0.0)
    score_length = first(rope_original_context, context_length)
    assert score_scale == 0.0 or score_length > 0, "attention.temperature_scale is given with an original context of 0"
    check_rope_factors(rope_freqs)
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params, score_length, score_scale)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

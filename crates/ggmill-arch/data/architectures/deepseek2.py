"""DeepSeek V2 and V3: latent attention, and experts with a shared expert behind dense layers."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    x = x + linear(attn_output[i], latent_attention(h, i, rope_params))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < leading_dense:
        x = x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    else:
        experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, expert_norm, expert_scale, gating, groups=groups, used_groups=used_groups)
        x = x + moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return x + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if i >= leading_dense and shared_length > 0 else x

def latent_attention(h, i, rope_params):
    """Keys and values of all heads come out of one vector of low rank, beside which one key is rotated."""
    if q_rank > 0:
        q = linear(attn_q_b[i], rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon))
    else:
        q = linear(attn_q[i], h)
    q = split_heads(q, heads)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), kv_rank, rope_length)
    c = rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)
    k_rope = rope_pairs(k_rope, rope_params)
    q_plain, q_rope = split(q, plain_length, rope_length)
    q_rope = rope_pairs(q_rope, rope_params)
    if latent:
        # Queries are multiplied by the matrix of keys, so that all heads attend to the vector itself.
        q = sharpened(concat(head_linear(attn_k_b[i], q_plain), q_rope))
        o = attention(q, concat(c, k_rope), c, mla_score_scale())
        return merge_heads(head_linear(attn_v_b[i], split_heads(o, heads)))
    k, v = split(split_heads(linear(attn_kv_b[i], c), heads), plain_length, value_mla)
    q = sharpened(concat(q_plain, q_rope))
    return attention(q, concat(k, repeat(k_rope, heads)), v, mla_score_scale())

def sharpened(q):
    """Queries that grow with the position, in models for long contexts."""
    return scale_by_position(q, score_length, score_scale) if score_scale != 0.0 else q

def is_yarn():
    return rope_scaling == "yarn" and first(rope_factor, rope_linear_factor, 0.0) != 0.0

def mla_magnitude():
    """The magnitude of angles, where scores have their own factor for YaRN."""
    return first(rope_magnitude, 1.0) * (yarn_growth() + 1.0 if is_yarn() and first(yarn_log_multiplier, 0.0) == 0.0 else 1.0)

def mla_score_scale():
    """What scores are multiplied by: more in long contexts."""
    growth = yarn_growth()
    sharpness = (mla_magnitude() if is_yarn() else mla_magnitude() * (growth + 1.0)) * (growth * 10.0 * first(yarn_log_multiplier, 0.0) + 1.0)
    return sharpness * sharpness / sqrt(key_mla)

def mla_angles():
    rope_params = rope_parameters()
    return [rope_params[0], rope_params[1], mla_magnitude(), rope_params[3]]

def model():
    check_rope()
    check_expert_groups()
    check_next_tokens()
    assert heads > 0 and value_mla > 0 and kv_rank > 0 and plain_length >= 1, "a number or a length of attention heads is 0, or rope.dimension_count is not less than the length of a key"
    assert score_scale == 0.0 or score_length > 0, "attention.temperature_scale is given without attention.temperature_length"
    assert expert_length > 0 or leading_dense >= trunk_count, "the width of an expert is 0"
    assert leading_dense >= trunk_count or experts_used > 0 and experts_used <= expert_count, "expert_used_count is 0, or greater than the number of experts"
    assert gating == 1 or gating == 2, "expert_gating_func is neither softmax nor sigmoid"
    rope_params = mla_angles()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

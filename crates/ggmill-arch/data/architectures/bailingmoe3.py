"""Ling 3 (Bailing MoE V3): linear attention (Kimi Delta Attention) in most layers, latent attention with a
gate for each head in the others; experts behind dense layers, with clamped gates."""

from kimi_linear import check_kda, expert_groups, short_conv_heads, unit_heads

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    y = delta_attention(h, i) if kda[i] else latent_attention(h, i, rope_params)
    x = x + linear(attn_output[i], y)
    return feed_forward_layer(x, rms_norm(x, ffn_norm[i], rms_norm_epsilon), i)

def delta_attention(h, i):
    q = short_conv_heads(h, attn_q[i], ssm_conv1d_q[i], kda_heads)
    k = short_conv_heads(h, attn_k[i], ssm_conv1d_k[i], kda_heads)
    v = short_conv_heads(h, attn_v[i], ssm_conv1d_v[i], kda_heads)
    q, k = unit_heads(q, k, kda_head_length, rms_norm_epsilon)
    beta = sigmoid(split_heads(linear(ssm_beta[i], h), kda_heads))
    decay = exp(sigmoid(split_heads(linear(ssm_f_a[i], h) + ssm_dt[i].bias, kda_heads) * ssm_a[i]) * gate_bound)
    y = delta_rule(q, k, v, beta, decay)
    return merge_heads(rms_norm(y, ssm_norm[i], rms_norm_epsilon)) * sigmoid(linear(ssm_g_a[i], h))

def latent_attention(h, i, rope_params):
    if q_rank > 0:
        q = linear(attn_q_b[i], rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon))
    else:
        q = linear(attn_q[i], h)
    q_plain, q_rope = split(split_heads(q, heads), plain_length, rope_length)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), kv_rank, rope_length)
    c = rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)
    if has(rope_sections) and rope_sections[0] > 0 and rope_sections[1] > 0:
        q_rope, k_rope = rope_halves(q_rope, rope_params), rope_halves(k_rope, rope_params)
    else:
        q_rope, k_rope = rope_pairs(q_rope, rope_params), rope_pairs(k_rope, rope_params)
    o = attention(concat(head_linear(attn_k_b[i], q_plain), q_rope), concat(c, k_rope), c, 1 / sqrt(key_mla))
    o = split_heads(o, heads)
    return merge_heads(head_linear(attn_v_b[i], o) * sigmoid(split_heads(linear(attn_gate[i], h), heads)))

def gated(g, u, limit):
    """g * u, with both limited if the limit is not 0."""
    return clamp(g, -1.0, limit) * clamp(u, -limit, limit) if limit > 0.000001 else g * u

def feed_forward_layer(x, h, i):
    limit = limits_written[i] if has(limits_written) else 0.0
    shared_limit = shared_limits_written[i] if has(shared_limits_written) else 0.0
    if i < leading_dense:
        g, u = silu(linear(ffn_gate[i], h)), linear(ffn_up[i], h)
        return x + linear(ffn_down[i], gated(g, u, shared_limit))
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, expert_norm, expert_scale, expert_gating, groups=expert_groups(), used_groups=first(expert_group_used_count, 0))
    g, u = expert_gate_up(h, experts, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i])
    y = weighted_sum(expert_linear(ffn_down_exps[i], gated(silu(g), u, limit), experts), weights)
    g, u = silu(linear(ffn_gate_shexp[i], h)), linear(ffn_up_shexp[i], h)
    return x + y + linear(ffn_down_shexp[i], gated(g, u, shared_limit))

def model():
    check_rope()
    check_kda()
    assert safe_gate and gate_bound < 0.0, "kda.safe_gate is false, or kda.gate_lower_bound is not negative"
    assert not has(rope_sections) or len(rope_sections) == 4 and rope_sections[3] == 0, "rope.dimension_sections has other than four numbers, or its last number is not 0"
    assert (not has(limits_written) or len(limits_written) >= trunk_count) and (not has(shared_limits_written) or len(shared_limits_written) >= trunk_count), "swiglu_clamp_exp or swiglu_clamp_shexp does not have one element for each layer"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

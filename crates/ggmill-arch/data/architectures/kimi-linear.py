"""Kimi Linear: linear attention (Kimi Delta Attention) in most layers, latent attention without positions
in the others; experts behind dense layers."""

def layer(x, i):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    y = delta_attention(h, i) if kda[i] else latent_attention(h, i)
    x = x + linear(attn_output[i], y)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < leading_dense:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = linear(ffn_gate_inp[i], h)
    p = sigmoid(p) if expert_gating == 2 else softmax(p)
    experts = top_k(p + exp_probs_b[i].bias, experts_used, groups=expert_groups(), used_groups=first(expert_group_used_count, 0))
    weights = normalize(gather(p, experts))
    weights = weights * weights_scale if weights_scale != 0.0 else weights
    y = weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), weights)
    return x + y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])

def delta_attention(h, i):
    q = short_conv_heads(h, attn_q[i], ssm_conv1d_q[i], kda_heads)
    k = short_conv_heads(h, attn_k[i], ssm_conv1d_k[i], kda_heads)
    v = short_conv_heads(h, attn_v[i], ssm_conv1d_v[i], kda_heads)
    q, k = unit_heads(q, k, kda_head_length, rms_norm_epsilon)
    beta = sigmoid(split_heads(linear(ssm_beta[i], h), kda_heads))
    decay = exp(split_heads(softplus(linear(ssm_f_b[i], linear(ssm_f_a[i], h)) + ssm_dt[i].bias), kda_heads) * ssm_a[i])
    y = merge_heads(rms_norm(delta_rule(q, k, v, beta, decay), ssm_norm[i], rms_norm_epsilon))
    return y * sigmoid(linear(ssm_g_b[i], linear(ssm_g_a[i], h)))

def latent_attention(h, i):
    q_plain, q_rope = split(split_heads(linear(attn_q[i], h), heads), plain_length, rope_length)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), kv_rank, rope_length)
    c = rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)
    q = concat(head_linear(attn_k_b[i], q_plain), q_rope)
    o = attention(q, concat(c, k_rope), c, 1 / sqrt(key_mla))
    return merge_heads(head_linear(attn_v_b[i], split_heads(o, heads)))

def check_kda():
    assert nextn_count <= block_count, "nextn_predict_layers is greater than block_count"
    assert kda_heads > 0 and kda_head_length > 0 and conv_kernel > 0, "a size of linear attention is 0"
    assert heads > 0 and key_mla > 0 and value_mla > 0 and kv_rank > 0 and rope_length > 0 and plain_length >= 1, "a number or a length of attention heads is 0, or rope.dimension_count is not less than the length of a key"
    assert leading_dense >= trunk_count or experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0, "the number of experts or of experts used, or the width of an expert is 0, or more experts are used than there are"
    assert expert_gating == 1 or expert_gating == 2, "expert_gating_func is neither softmax nor sigmoid"
    assert leading_dense >= trunk_count or first(expert_group_count, 0) <= 1 or expert_count % expert_group_count == 0 and expert_count >= 2 * expert_group_count and first(expert_group_used_count, 0) > 0 and expert_group_used_count <= expert_group_count and experts_used * expert_group_count <= expert_count * expert_group_used_count, "experts cannot be chosen from groups with these numbers of experts and groups"

def expert_groups():
    return expert_group_count if first(expert_group_count, 0) > 1 else None

def short_conv_heads(h, weight, conv, heads):
    """The heads of a projection, convolved over the last tokens."""
    return split_heads(silu(causal_conv(conv, linear(weight, h))), heads)

def unit_heads(q, k, length, epsilon):
    """Queries and keys of unit length, and queries divided by its square root."""
    return rms_norm(q, None, epsilon / length) / length, rms_norm(k, None, epsilon / length) / sqrt(length)

def model():
    check_kda()
    assert q_rank == 0, "attention.q_lora_rank is not 0, and this architecture has no queries of low rank"
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

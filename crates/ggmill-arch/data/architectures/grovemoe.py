"""GroveMoE: experts in groups; each group has a small expert more, which the experts of it share."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = rms_norm(split_heads(linear(attn_q[i], h), heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(linear(attn_k[i], h), kv_heads), attn_k_norm[i], rms_norm_epsilon)
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    v = split_heads(linear(attn_v[i], h), kv_heads)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    scores = linear(ffn_gate_inp[i], h)
    p, s = softmax(scores), sigmoid(scores)
    experts = top_k(s, experts_used)
    y = weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), normalize(gather(p, experts)))
    # The small experts of the groups of the best experts, applied to the result of the experts.
    shared = top_k(s, min(experts_used, groups), shared=group_size)
    if group_size > 1:
        p, others = split(p, groups, expert_count - groups)
    z = expert_swiglu(y, shared, ffn_gate_chexps[i], ffn_up_chexps[i], ffn_down_chexps[i])
    return x + (y + weighted_sum(z, normalize(gather(p, shared))) * group_scale)

def model():
    check_heads()
    check_rope()
    assert experts_used > 0 and experts_used <= expert_count and expert_length > 0 and chunk_length > 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"
    assert group_size > 0 and groups * group_size == expert_count, "the number of experts is not a multiple of experts_per_group"
    check_no_expert_groups()
    assert has(group_scale), "expert_group_scale is missing"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

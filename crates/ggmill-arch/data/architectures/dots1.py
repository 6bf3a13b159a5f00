"""dots.llm1: experts and a shared expert behind dense layers; normalized queries and keys."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(q, heads)
    k = split_heads(k, kv_heads)
    q = rms_norm(q, attn_q_norm[i], rms_norm_epsilon) if has(attn_q_norm[i]) else q
    k = rms_norm(k, attn_k_norm[i], rms_norm_epsilon) if has(attn_k_norm[i]) else k
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < dense_blocks:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, weights_norm, weights_scale, expert_gating)
    y = weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), weights)
    return x + y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])

def model():
    check_heads()
    check_rope()
    check_next_tokens()
    assert experts_used > 0 and experts_used <= expert_count and expert_length > 0 and first(expert_group_count, 0) <= 1, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0, or experts are chosen from the best of several groups (expert_group_count)"
    check_gating()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

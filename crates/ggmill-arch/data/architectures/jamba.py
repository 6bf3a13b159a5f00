"""Jamba: Mamba in most layers, attention without positions in the others; experts in some."""

def layer(x, i):
    h = rms_norm(x, attn_norm[i], norm_epsilon)
    if head_count_kv[i] == 0:
        x = x + mamba(h, i)
    else:
        q, k, v = split_heads(linear(attn_q[i], h), heads), split_heads(linear(attn_k[i], h), head_count_kv[i]), split_heads(linear(attn_v[i], h), head_count_kv[i])
        x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(head_length)))
    h = rms_norm(x, ffn_norm[i], norm_epsilon)
    if not has(ffn_gate_inp[i]):
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    return x + weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), gather(p, experts))

def mamba(h, i):
    """Mamba with normalized time steps, inputs and outputs."""
    u, z = split(linear(ssm_in[i], h), inner_size, inner_size)
    u = silu(causal_conv(ssm_conv1d[i], u))
    dt, b, c = split(linear(ssm_x[i], u), time_step_rank, state_size, state_size)
    b, c = rms_norm(b, ssm_b_norm[i], norm_epsilon), rms_norm(c, ssm_c_norm[i], norm_epsilon)
    dt = split_heads(softplus(linear(ssm_dt[i], rms_norm(dt, ssm_dt_norm[i], norm_epsilon))), inner_size)
    y = linear_recurrence(c, b, split_heads(u, inner_size) * dt, dt, rates=ssm_a[i])
    return linear(ssm_out[i], (merge_heads(y) + u * ssm_d[i]) * silu(z))

def model():
    assert heads > 0 and head_length > 0, "a number or a length of attention heads is 0"
    assert inner_size > 0 and state_size > 0 and time_step_rank > 0 and conv_kernel > 0, "a size of the state is 0"
    assert expert_count == 0 or experts_used > 0 and experts_used <= expert_count, "expert_used_count is 0, or greater than the number of experts"
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert head_count_kv[i] == 0 or heads % head_count_kv[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        is_moe = has(ffn_gate_inp[i])
        has_experts = has(ffn_gate_exps[i]) and has(ffn_up_exps[i]) and has(ffn_down_exps[i])
        has_dense = has(ffn_gate[i]) and has(ffn_up[i]) and has(ffn_down[i])
        assert is_moe and expert_count > 0 and has_experts or not is_moe and has_dense, "a layer has neither a feed-forward layer nor experts"
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, norm_epsilon)))

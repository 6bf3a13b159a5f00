"""The blocks that the computation graphs of several architectures share.

A function of this file sees its parameters and the other functions here; functions of an architecture also
see the hyperparameters and tensors of the model. A default such as `heads=heads` is the hyperparameter of this
name. docs/formats/graph.md is the reference of the language and of its operations.
"""

# What the numbers of a model have to meet.

def check_heads(heads=heads, kv_heads=kv_heads, key_length=key_length, value_length=value_length,
                q_length=q_length, k_length=k_length, v_length=v_length):
    assert heads > 0 and kv_heads > 0 and key_length > 0 and value_length > 0, "a number or a length of attention heads is 0"
    assert heads % kv_heads == 0, "the number of attention heads is not a multiple of the number of KV heads"
    assert q_length == heads * key_length and k_length == kv_heads * key_length and v_length == kv_heads * value_length and heads * value_length == q_length, "the lengths of queries, keys and values do not match the attention heads"

def check_rope(context=context_length, length=rope_length, head_length=key_length):
    assert has(context), "context_length is missing"
    assert length > 0 and length % 2 == 0 and length <= head_length, "rope.dimension_count is odd, 0, or greater than the length of an attention head"

def check_embedding_is_heads(embedding=embedding_length, q_length=q_length):
    assert embedding == q_length, "the total length of the attention heads is not the embedding length"

def check_sections(sections=rope_sections):
    assert len(first(sections, [])) <= 3 or sections[3] == 0, "rope.dimension_sections has a fourth section, which text has no positions for"

def check_rope_factors(factors, length=rope_length, head_length=key_length):
    assert not has(factors) or length == head_length, "rope_freqs has factors for whole attention heads, but rope.dimension_count is not their length"

def check_windows(period=window_period, blocks=block_count, local_base=local_base):
    assert not is_list(period) or len(period) >= blocks, "attention.sliding_window_pattern does not have one element for each layer"
    assert is_list(period) or first(period, 1) != 0, "attention.sliding_window_pattern is 0"
    assert local_base > 0.0, "rope.freq_base_swa is not positive"

def check_experts_used(used=experts_used, count=expert_count):
    assert used > 0 and used <= count, "expert_used_count is 0, or greater than the number of experts"

def check_experts(used=experts_used, count=expert_count, length=expert_length):
    assert used > 0 and used <= count and length > 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"

def check_gating(gating=expert_gating):
    assert gating == 1 or gating == 2, "expert_gating_func is neither softmax nor sigmoid"

def check_no_expert_groups(groups=expert_group_count):
    assert first(groups, 0) <= 1, "experts are chosen from the best of several groups (expert_group_count)"

def check_expert_groups(groups=groups, used_groups=used_groups, count=expert_count, used=experts_used):
    assert groups == 0 or count % groups == 0 and count >= 2 * groups and used_groups > 0 and used_groups <= groups and used * groups <= count * used_groups, "the groups of experts do not divide the experts, or contain only one, or fewer than a token uses"

def check_next_tokens(nextn=nextn_count, blocks=block_count):
    assert nextn <= blocks, "nextn_predict_layers is greater than block_count"

def check_no_next_tokens(nextn=nextn_count):
    assert nextn == 0, "there are layers that predict further tokens (nextn_predict_layers)"

# Rotary positions. Parameters of `rope` are [base, scale, magnitude, yarn].

def yarn_growth(scaling_factor=rope_factor, linear_factor=rope_linear_factor):
    factor = first(scaling_factor, linear_factor, 0.0)
    return log(factor) / 10.0 if factor > 1.0 else 0.0

def rope_parameters(base=rope_freq_base, scaling=rope_scaling, scaling_factor=rope_factor,
                    linear_factor=rope_linear_factor, original_context=rope_original_context,
                    context=context_length, beta_fast=rope_beta_fast, beta_slow=rope_beta_slow,
                    extrapolation_factor=rope_extrapolation_factor, magnitude=rope_magnitude,
                    log_multiplier=yarn_log_multiplier, attention_factor=rope_attention_factor):
    """The parameters of `rope` from the hyperparameters: [base, scale, magnitude, yarn], as trained, scaled (linear), or mixed (YaRN)."""
    base = first(base, 10000.0)
    factor = first(scaling_factor, linear_factor, 0.0)
    assert base > 0.0 and factor >= 0.0, "rope.freq_base is not positive, or the factor of rotary positions is negative"
    scale = 1.0 if scaling == "none" or factor == 0.0 else 1.0 / factor
    if scaling != "yarn" or factor == 0.0:
        return [base, scale, first(magnitude, 1.0) * first(attention_factor, 1.0), None]
    yarn = [first(original_context, context), first(beta_fast, 32.0), first(beta_slow, 1.0), first(extrapolation_factor, 1.0)]
    growth = log(factor) / 10.0 if factor > 1.0 else 0.0
    return [base, scale, first(magnitude, 1.0) * ((growth + 1.0) / (growth * first(log_multiplier, 0.0) + 1.0)), yarn]

def plain_rope_parameters(base):
    return [base, 1.0, 1.0, None]

def with_base(rope_params, base):
    return [base, rope_params[1], rope_params[2], rope_params[3]]

def unscaled(rope_params, base, scaling_factor=rope_factor, linear_factor=rope_linear_factor):
    """The parameters with another base and without the linear scale, as layers with a window have them. YaRN multiplies by its growth only where it scales."""
    growth = 0.0 if rope_params[3] is None else yarn_growth(scaling_factor, linear_factor)
    return [base, 1.0, rope_params[2] / (growth + 1.0), rope_params[3]]

def rope_halves(x, rope_params, length=rope_length, factors=None):
    """Rotates number i of a head together with number i + length / 2 (as GPT-NeoX)."""
    base, scale, magnitude, yarn = rope_params
    return rope(x, "halves", length, base, factors=factors, scale=scale, magnitude=magnitude, yarn=yarn)

def rope_pairs(x, rope_params, length=rope_length, factors=None, back=False):
    """Rotates neighboring numbers of a head together (as GPT-J)."""
    base, scale, magnitude, yarn = rope_params
    return rope(x, "pairs", length, base, factors=factors, scale=scale, magnitude=magnitude, yarn=yarn, back=back)

def optional(tensor):
    """The tensor, or None if the model does not have it."""
    return tensor if has(tensor) else None

# Attention.

def project_qkv(h, qkv, q, k, v, q_length=q_length, k_length=k_length, v_length=v_length):
    """Queries, keys and values, from one matrix if the model has it, or from three."""
    if has(qkv):
        return split(linear(qkv, h), q_length, k_length, v_length)
    return linear(q, h), linear(k, h), linear(v, h)

def qkv_heads(h, qkv, q, k, v, heads=heads, kv_heads=kv_heads, q_length=q_length, k_length=k_length, v_length=v_length):
    q, k, v = project_qkv(h, qkv, q, k, v, q_length, k_length, v_length)
    return split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads)

def is_windowed(i, every, period=window_period):
    """Whether layer i attends to a window: as a list says for each layer, or all but the last of every `every` layers do."""
    if is_list(period):
        return period[i]
    every = first(period, every)
    return i % every < every - 1

def softcap(x, limit):
    return tanh(x / limit) * limit

# Feed-forward layers.

def swiglu(h, gate, up, down):
    return linear(down, silu(linear(gate, h)) * linear(up, h))

def geglu(h, gate, up, down):
    return linear(down, gelu(linear(gate, h)) * linear(up, h))

def fused_swiglu(h, gate_up, down, length=feed_forward):
    """SwiGLU with gate and value in one matrix."""
    g, u = split(linear(gate_up, h), length, length)
    return linear(down, silu(g) * u)

def gelu_mlp(h, up, down):
    return linear(down, gelu(linear(up, h)))

def squared_relu_mlp(h, up, down):
    u = relu(linear(up, h))
    return linear(down, u * u)

def clamped_swiglu(g, u, limit):
    """silu(g) * u, with g at most the limit and u between -limit and limit. There is no limit if it is 0."""
    if limit > 0.000001:
        return silu(clamp(g, -3.4e38, limit)) * clamp(u, -limit, limit)
    return silu(g) * u

# Experts.

def moe_router(h, router, bias, normalized, scale, gating, used=experts_used, groups=None, used_groups=None):
    """The experts of each token and their weights. A bias counts for the choice only."""
    p = linear(router, h)
    p = sigmoid(p) if gating == 2 else softmax(p)
    experts = top_k(p + bias if has(bias) else p, used, groups=groups, used_groups=used_groups)
    weights = gather(p, experts)
    weights = normalize(weights) if normalized else weights
    return experts, weights * scale if first(scale, 0.0) != 0.0 else weights

def expert_swiglu(h, experts, gate, up, down):
    u = silu(expert_linear(gate, h, experts)) * expert_linear(up, h, experts)
    return expert_linear(down, u, experts)

def expert_gate_up(h, experts, gate_up, gate, up, length=expert_length):
    """Gate and value of each expert, from one tensor if the model has it, or from two."""
    if has(gate_up):
        return split(expert_linear(gate_up, h, experts), length, length)
    return expert_linear(gate, h, experts), expert_linear(up, h, experts)

def moe_swiglu(h, experts, weights, gate_up, gate, up, down, length=expert_length):
    """The sum of the experts' SwiGLU layers by the weights."""
    g, u = expert_gate_up(h, experts, gate_up, gate, up, length)
    return weighted_sum(expert_linear(down, silu(g) * u, experts), weights)

def softmax_moe(h, router, gate, up, down, used=experts_used):
    """Experts whose weights are a softmax over all, divided by the sum over those chosen."""
    p = softmax(linear(router, h))
    experts = top_k(p, used)
    return weighted_sum(expert_swiglu(h, experts, gate, up, down), normalize(gather(p, experts)))

# State spaces and linear attention.

def check_mamba2(inner=mamba_inner, state=mamba_state, heads=mamba_heads, groups=mamba_groups, conv=mamba_conv, nextn=nextn_count, blocks=block_count):
    assert nextn <= blocks, "nextn_predict_layers is greater than block_count"
    assert inner > 0 and state > 0 and heads > 0 and groups > 0 and conv > 0, "a size of the state is 0"
    assert inner % heads == 0 and inner % groups == 0 and heads % groups == 0, "the heads do not divide the state, or the groups do not divide the heads"

def mamba2_scan(u, dt, conv, dt_bias, a, d, inner, state, heads, groups):
    """The scan of Mamba 2, with the skip connection; as heads."""
    v, b, c = split(silu(causal_conv(conv, u)), inner, groups * state, groups * state)
    v = split_heads(v, heads)
    dt = softplus(split_heads(dt + dt_bias, heads))
    # dt - dt + d: one number for each head. v * d could be taken for one number for each element.
    return linear_recurrence(split_heads(c, groups), split_heads(b, groups), v * dt, exp(dt * a)) + v * (dt - dt + d)

def mamba2(h, in_proj, conv, dt, a, d, norm, out_proj, epsilon=rms_norm_epsilon, inner=mamba_inner, state=mamba_state,
           heads=mamba_heads, groups=mamba_groups, conv_length=mamba_conv_length):
    z, u, steps = split(linear(in_proj, h), inner, conv_length, heads)
    y = mamba2_scan(u, steps, conv, dt.bias, a, d, inner, state, heads, groups)
    y = rms_norm(split_heads(merge_heads(y) * silu(z), groups), norm, epsilon)
    return linear(out_proj, merge_heads(y))

def delta_rule(q, k, v, beta, decay):
    """Linear attention whose state forgets, of what it has at the key, the share beta."""
    return linear_recurrence(q, k, v * beta, decay, read=-(k * decay), write=k * beta)

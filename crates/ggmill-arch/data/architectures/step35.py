"""Step 3.5: experts behind dense layers, with clamped gates; layers with a window have their own numbers of
heads and their own positions; a gate for each attention head."""

def layer(x, i, rope_params):
    length = turned_sliding if sliding[i] else turned_full
    factors = rope_freqs if has(rope_freqs) and not sliding[i] else None
    rope_params = sliding_angles(rope_params) if sliding[i] else rope_params
    h = rms_norm(x, attn_norm[i], epsilon)
    q, k, v = split_heads(linear(attn_q[i], h), heads[i]), split_heads(linear(attn_k[i], h), groups[i]), split_heads(linear(attn_v[i], h), groups[i])
    q = rms_norm(q, attn_q_norm[i], epsilon) if has(attn_q_norm[i]) else q
    k = rms_norm(k, attn_k_norm[i], epsilon) if has(attn_k_norm[i]) else k
    q = rope_halves(q, rope_params, length, factors)
    k = rope_halves(k, rope_params, length, factors)
    o = attention(q, k, v, 1 / sqrt(key_length), causal=causal, window=window if sliding[i] else 0)
    if has(attn_gate[i]):
        o = merge_heads(split_heads(o, heads[i]) * sigmoid(split_heads(linear(attn_gate[i], h), heads[i])))
    x = x + linear(attn_output[i], o)
    return x + feed_forward_layer(rms_norm(x, ffn_norm[i], epsilon), i)

def sliding_angles(rope_params):
    base, scale, magnitude, yarn = rope_params
    return [local_base, 1.0, magnitude / (yarn_growth() + 1.0) if is_list(yarn) else magnitude, yarn]

def gated(g, u, limit):
    """g * u, with both limited if the limit is not 0."""
    return clamp(g, -3.4e38, limit) * clamp(u, -limit, limit) if limit > 0.000001 else g * u

def feed_forward_layer(h, i):
    shared_limit = limits_shexp[i] if has(limits_shexp) else 0.0
    if not has(ffn_gate_inp[i]):
        g, u = silu(linear(ffn_gate[i], h)), linear(ffn_up[i], h)
        return linear(ffn_down[i], gated(g, u, shared_limit))
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, routed_norm, routed_scale, expert_gating)
    g, u = silu(expert_linear(ffn_gate_exps[i], h, experts)), expert_linear(ffn_up_exps[i], h, experts)
    limit = limits_exp[i] if has(limits_exp) else 0.0
    y = weighted_sum(expert_linear(ffn_down_exps[i], gated(g, u, limit), experts), weights)
    g, u = silu(linear(ffn_gate_shexp[i], h)), linear(ffn_up_shexp[i], h)
    return y + linear(ffn_down_shexp[i], gated(g, u, shared_limit))

def model():
    check_rope()
    check_next_tokens()
    assert has(epsilon), "attention.layer_norm_rms_epsilon is missing"
    assert len(sliding) >= block_count and len(heads) >= block_count and len(groups) >= block_count, "attention.head_count, attention.head_count_kv or attention.sliding_window_pattern does not have one element for each layer"
    assert window > 0 and key_length > 0 and value_length > 0, "attention.sliding_window or a length of attention heads is 0"
    assert rope_length <= key_length, "rope.dimension_count is greater than the length of an attention head"
    assert turned_full > 0 and turned_full % 2 == 0 and turned_sliding > 0 and turned_sliding % 2 == 0 and turned_sliding <= key_length and local_base > 0.0, "rope.dimension_count, or half of it, is odd, 0, or greater than the length of an attention head, or rope.freq_base_swa is not positive"
    check_gating()
    assert experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"
    assert (not is_list(limits_exp) or len(limits_exp) >= block_count) and (not is_list(limits_shexp) or len(limits_shexp) >= block_count), "swiglu_clamp_exp or swiglu_clamp_shexp has fewer elements than there are blocks"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        assert heads[i] > 0 and groups[i] > 0 and heads[i] % groups[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, epsilon)))

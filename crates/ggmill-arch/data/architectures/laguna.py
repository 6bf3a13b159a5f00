"""Laguna: experts and a shared expert behind dense layers; a gate for each attention head; windows in three of four layers."""

def layer(x, i, rope_params):
    windowed = window_length > 0 and (window_period[i] if is_list(window_period) else i % first(window_period, 4) > 0)
    count = block_heads[i]
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = rms_norm(split_heads(linear(attn_q[i], h), count), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(linear(attn_k[i], h), kv_heads), attn_k_norm[i], rms_norm_epsilon)
    v = split_heads(linear(attn_v[i], h), kv_heads)
    rope_params = plain_rope_parameters(local_base) if windowed else rope_params
    q = rope_halves(q, rope_params, turned_local if windowed else rotary)
    k = rope_halves(k, rope_params, turned_local if windowed else rotary)
    o = attention(q, k, v, 1 / sqrt(key_length), causal=causal, window=window_length if windowed else 0)
    o = merge_heads(split_heads(o, count) * split_heads(softplus(linear(attn_gate[i], h)), count))
    x = x + linear(attn_output[i], o)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < leading_dense:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, routed_norm, routed_scale, expert_gating)
    y = moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return x + (y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]))

def model():
    check_rope()
    check_windows()
    assert experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"
    check_no_next_tokens()
    check_gating()
    check_no_expert_groups()
    assert key_length > 0 and key_length == value_length and kv_heads > 0, "a number or a length of attention heads is 0, or keys and values differ in length"
    assert not is_list(head_count_kv) or count(head_count_kv, kv_heads) >= block_count, "attention.head_count_kv differs from layer to layer"
    assert turned_local > 0 and turned_local % 2 == 0 and turned_local <= key_length, "rope.dimension_count_swa is odd, 0, or greater than the length of an attention head"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert block_heads[i] > 0 and block_heads[i] % kv_heads == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""Maple: experts in every layer; positions only in layers with a window."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rms_norm(split_heads(q, heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(k, kv_heads), attn_k_norm[i], rms_norm_epsilon)
    if window_period[i]:
        q = rope_halves(q, with_base(rope_params, local_base))
        k = rope_halves(k, with_base(rope_params, local_base))
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, window=window_length if window_period[i] else 0)
    x = x + linear(attn_output[i], o)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    g = expert_linear(ffn_gate_exps[i], h, experts)
    u = expert_linear(ffn_up_exps[i], h, experts)
    u = clamped_swiglu(g, u, limits[i])
    return x + weighted_sum(expert_linear(ffn_down_exps[i], u, experts), normalize(gather(p, experts)))

def model():
    check_heads()
    check_rope()
    check_windows()
    check_experts()
    assert window_length > 0, "attention.sliding_window is 0"
    assert is_list(window_period), "attention.sliding_window_pattern is not a list"
    assert not is_list(limits) or len(limits) >= block_count, "swiglu_clamp_exp has fewer elements than there are blocks"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

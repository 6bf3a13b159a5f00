"""EXAONE MoE: experts behind dense layers; positions only in layers with a window."""

def layer(x, i, rope_params):
    windowed = is_windowed(i, 4)
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rms_norm(split_heads(q, heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(k, kv_heads), attn_k_norm[i], rms_norm_epsilon)
    if windowed:
        q = rope_halves(q, rope_params, factors=optional(rope_freqs))
        k = rope_halves(k, rope_params, factors=optional(rope_freqs))
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, window=window_length if windowed else 0)
    x = x + linear(attn_output[i], o)
    return x + feed_forward_layer(rms_norm(x, ffn_norm[i], rms_norm_epsilon), i)

def feed_forward_layer(h, i):
    if not has(ffn_gate_inp[i]):
        return swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, routed_norm, routed_scale, expert_gating)
    y = weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), weights)
    return y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if has(ffn_gate_shexp[i]) else y

def model():
    check_heads()
    check_rope()
    check_windows(blocks=trunk_count)
    check_next_tokens()
    check_experts()
    check_gating()
    check_no_expert_groups()
    assert window_length > 0, "attention.sliding_window is 0"
    check_rope_factors(rope_freqs)
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""MiMo 2: experts behind dense layers; layers with a window have their own number of KV heads."""

def layer(x, i, rope_params):
    windowed = windows[i] != 0
    rope_params = unscaled(rope_params, local_base) if windowed else rope_params
    h = rms_norm(x, attn_norm[i], class_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i], q_length, groups[i] * key_length, groups[i] * value_length)
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, groups[i]), rope_params)
    o = attention(q, k, split_heads(v, groups[i]), 1 / sqrt(key_length), causal=causal, window=window if windowed else 0, sinks=optional(attn_sinks[i]))
    x = x + linear(attn_output[i], o) * (value_scale if first(value_scale, 0.0) != 0.0 else 1.0)
    h = rms_norm(x, ffn_norm[i], class_epsilon)
    if not has(ffn_gate_inp[i]):
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = sigmoid(linear(ffn_gate_inp[i], h))
    experts = top_k(p + exp_probs_b[i].bias if has(exp_probs_b[i].bias) else p, experts_used)
    weights = normalize(gather(p, experts))
    return x + weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), weights)

def model():
    check_rope()
    check_windows()
    check_next_tokens()
    check_experts()
    check_no_expert_groups()
    assert window > 0 and heads > 0 and key_length > 0 and value_length > 0, "attention.sliding_window, or a number or a length of attention heads, is 0"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        assert groups[i] > 0 and heads % groups[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, class_epsilon)))

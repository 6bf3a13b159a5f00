"""Cohere 2 MoE: attention and experts side by side. Layers without a window have no positions, but for
the first dense ones."""

def norm(x, weight):
    """An RMS norm if the file has its epsilon, otherwise a layer norm."""
    if first(rms_norm_epsilon, 0.0) != 0.0:
        return rms_norm(x, weight, rms_norm_epsilon)
    return layer_norm(x, weight, layer_norm_epsilon)

def layer(x, i, rope_params):
    h = norm(x, attn_norm[i])
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(q, heads)
    k = split_heads(k, kv_heads)
    if windowed[i] or i < leading_dense:
        q = rope_pairs(q, rope_params)
        k = rope_pairs(k, rope_params)
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, window=window if windowed[i] else 0)
    return x + feed_forward_layer(h, i) + linear(attn_output[i], o)

def feed_forward_layer(h, i):
    if i < leading_dense:
        return swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = linear(ffn_gate_inp[i], h)
    p = sigmoid(p) if expert_gating == 2 else softmax(p)
    experts = top_k(p, experts_used)
    weights = normalize(gather(p, experts)) if routed_norm else gather(p, experts)
    weights = weights * routed_scale if routed_scale != 0.0 else weights
    y = moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return (y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])) * 0.5 if has(ffn_gate_shexp[i]) else y

def model():
    check_heads()
    check_rope()
    check_next_tokens()
    check_experts()
    check_gating()
    check_no_expert_groups()
    assert len(windowed) >= trunk_count, "attention.sliding_window_pattern has fewer elements than there are blocks"
    assert window > 0, "attention.sliding_window is 0"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, norm(x, output_norm)) * (logit_scale if logit_scale != 0.0 else 1.0))

"""AFMoE: experts behind dense layers; attention with a gate, to a window in most layers. Every fourth
layer has no positions."""

def layer(x, i, rope_params):
    windowed = window_length > 0 and is_windowed(i, 4)
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rms_norm(split_heads(q, heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(k, kv_heads), attn_k_norm[i], rms_norm_epsilon)
    if (i + 1) % 4 != 0:
        rope_params = with_base(rope_params, local_base) if windowed else rope_params
        q = rope_halves(q, rope_params)
        k = rope_halves(k, rope_params)
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, window=window_length if windowed else 0)
    x = x + rms_norm(linear(attn_output[i], o * sigmoid(linear(attn_gate[i], h))), post_attention_norm[i], rms_norm_epsilon)
    return x + rms_norm(feed_forward_layer(rms_norm(x, ffn_norm[i], rms_norm_epsilon), i), post_ffw_norm[i], rms_norm_epsilon)

def feed_forward_layer(h, i):
    if not has(ffn_gate_inp[i]):
        return swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, routed_norm, routed_scale, expert_gating)
    y = moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if has(ffn_gate_shexp[i]) else y

def model():
    check_heads()
    check_rope()
    check_windows()
    check_next_tokens()
    check_experts()
    check_gating()
    check_no_expert_groups()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * sqrt(embedding_length)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

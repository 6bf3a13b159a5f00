"""LFM2 MoE: LFM2 with experts behind the first layers."""

def layer(x, i, angles):
    x = x + mixed(rms_norm(x, attn_norm[i], rms_norm_epsilon), i, angles)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < dense_blocks:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = sigmoid(linear(ffn_gate_inp[i], h))
    experts = top_k(p + exp_probs_b[i].bias, experts_used)
    weights = normalize(gather(p, experts))
    weights = weights * expert_scale if expert_scale != 0.0 else weights
    return x + weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), weights)

def mixed(h, i, angles):
    if block_kv_heads[i] == 0:
        b, c, u = split(linear(shortconv.in_proj[i], h), embedding_length, embedding_length, embedding_length)
        return linear(shortconv.out_proj[i], c * causal_conv(shortconv.conv[i], b * u))
    q = rms_norm(split_heads(linear(attn_q[i], h), heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(linear(attn_k[i], h), block_kv_heads[i]), attn_k_norm[i], rms_norm_epsilon)
    q = rope_halves(q, angles)
    k = rope_halves(k, angles)
    v = split_heads(linear(attn_v[i], h), block_kv_heads[i])
    return linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), window=first(window, 0)))

def model():
    check_rope()
    assert heads > 0 and key_length > 0 and value_length > 0 and kernel > 0 and causal, "a number or a length of attention heads, or the length of the convolution, is 0, or the model is not causal"
    assert expert_gating == 2, "expert_gating_func is not sigmoid"
    assert expert_length > 0 and experts_used > 0, "the width of an expert, or the number of experts used, is 0"
    angles = rope_angles()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert block_kv_heads[i] == 0 or heads % block_kv_heads[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i, angles)
    return logits(linear(output, rms_norm(x, token_embd_norm, rms_norm_epsilon)))

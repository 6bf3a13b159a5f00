"""Ling (Bailing MoE): experts and a shared expert in every layer."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(q, rope_params)
    k = rope_pairs(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    weights = normalize(gather(p, experts)) if routed_norm else gather(p, experts)
    weights = weights * routed_scale if routed_scale != 0.0 else weights
    x = x + weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), weights)
    return x + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])

def model():
    check_heads()
    check_rope()
    check_experts_used()
    assert rope_length == key_length and leading_dense == 0, "rope.dimension_count is not the length of an attention head, or leading_dense_block_count is not 0"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert has(ffn_gate_inp[i]) and (has(ffn_gate_exps[i]) and has(ffn_up_exps[i]) and has(ffn_down_exps[i])) and has(ffn_gate_shexp[i]) and has(ffn_up_shexp[i]) and has(ffn_down_shexp[i]), "a layer lacks tensors of its experts"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

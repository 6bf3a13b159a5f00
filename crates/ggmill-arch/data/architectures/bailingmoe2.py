"""Ling 2 (Bailing MoE V2): experts in groups behind dense layers; normalized queries and keys."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), q_length, k_length, v_length)
    q = split_heads(q, heads)
    k = split_heads(k, kv_heads)
    q = rms_norm(q, attn_q_norm[i], rms_norm_epsilon) if has(attn_q_norm[i]) else q
    k = rms_norm(k, attn_k_norm[i], rms_norm_epsilon) if has(attn_k_norm[i]) else k
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length)))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < leading_dense:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, expert_norm, expert_scale, expert_gating, groups=groups, used_groups=used_groups)
    y = moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return x + y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])

def model():
    check_heads()
    check_rope()
    check_expert_groups()
    check_experts()
    check_gating()
    check_next_tokens()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

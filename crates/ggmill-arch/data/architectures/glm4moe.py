"""GLM 4.5: experts and a shared expert behind dense layers."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(q, heads)
    k = split_heads(k, kv_heads)
    q = rms_norm(q, attn_q_norm[i], rms_norm_epsilon) if has(attn_q_norm[i]) else q
    k = rms_norm(k, attn_k_norm[i], rms_norm_epsilon) if has(attn_k_norm[i]) else k
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal))
    return x + feed_forward_layer(rms_norm(x, post_attention_norm[i], rms_norm_epsilon), i)

def feed_forward_layer(h, i):
    if not has(ffn_gate_inp[i]):
        return swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, routed_norm, routed_scale, expert_gating)
    y = moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if has(ffn_gate_shexp[i]) else y

def model():
    check_heads()
    check_rope()
    check_next_tokens()
    check_experts()
    check_gating()
    check_no_expert_groups()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

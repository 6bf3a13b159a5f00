"""MiniMax-M2: experts in every layer; queries and keys are normalized over all heads."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(rms_norm(q, attn_q_norm[i], rms_norm_epsilon), heads)
    k = split_heads(rms_norm(k, attn_k_norm[i], rms_norm_epsilon), kv_heads)
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    p = linear(ffn_gate_inp[i], h)
    p = sigmoid(p) if expert_gating == 2 else softmax(p)
    experts = top_k(p + exp_probs_b[i].bias if has(exp_probs_b[i].bias) else p, experts_used)
    return x + weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), normalize(gather(p, experts)))

def model():
    check_heads()
    check_rope()
    check_experts_used()
    check_gating()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""OLMoE: experts in every layer; queries and keys are normalized over all heads."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = split_heads(rms_norm(linear(attn_q[i], h), attn_q_norm[i], rms_norm_epsilon), heads)
    k = split_heads(rms_norm(linear(attn_k[i], h), attn_k_norm[i], rms_norm_epsilon), kv_heads)
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    return x + weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), gather(p, experts))

def model():
    check_heads()
    check_rope()
    check_experts_used()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

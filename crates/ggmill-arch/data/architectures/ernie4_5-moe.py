"""ERNIE 4.5 MoE: experts in some layers, with a shared expert."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(q, rope_params)
    k = rope_pairs(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if not expert_block[i]:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p + exp_probs_b[i].bias if has(exp_probs_b[i].bias) else p, experts_used)
    x = x + weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), normalize(gather(p, experts)))
    return x + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if has(ffn_up_shexp[i]) else x

def model():
    check_heads()
    check_rope()
    check_experts()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""DeepSeek (the first): experts and a shared expert behind dense layers."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(q, rope_params)
    k = rope_pairs(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if not has(ffn_gate_inp[i]):
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    weights = gather(p, experts) * expert_scale if expert_scale != 0.0 else gather(p, experts)
    x = x + moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return x + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])

def model():
    check_heads()
    check_rope()
    assert nextn_count == 0, "nextn_predict_layers is not 0"
    check_experts_used()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

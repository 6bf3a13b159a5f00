"""Qwen 2 MoE: experts in every layer, and a shared expert with a gate."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    y = weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), gather(p, experts))
    shared = swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])
    return x + y + shared * sigmoid(linear(ffn_gate_inp_shexp[i], h))

def model():
    check_heads()
    check_rope()
    assert expert_length > 0 and shared > 0, "the width of an expert is 0"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

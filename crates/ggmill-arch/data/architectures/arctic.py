"""Arctic: a dense layer after attention, and beside it experts that see the input of the block."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(q, rope_params)
    k = rope_pairs(k, rope_params)
    r = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(r, ffn_norm[i], rms_norm_epsilon)
    c = rms_norm(x, ffn_norm_exps[i], rms_norm_epsilon)
    p = softmax(linear(ffn_gate_inp[i], c))
    experts = top_k(p, experts_used)
    u = silu(expert_linear(ffn_gate_exps[i], c, experts)) * expert_linear(ffn_up_exps[i], c, experts)
    dense = r + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    return dense + weighted_sum(expert_linear(ffn_down_exps[i], u, experts), normalize(gather(p, experts)))

def model():
    check_heads()
    check_rope()
    check_experts_used()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

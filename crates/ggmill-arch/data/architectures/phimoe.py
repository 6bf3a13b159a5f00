"""Phi 3.5 MoE: experts in every layer. Its RMS norms have biases."""

def norm(x, weight):
    return rms_norm(x, None, rms_norm_epsilon) * weight + weight.bias

def layer(x, i, rope_params):
    h = norm(x, attn_norm[i])
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(split_heads(q, heads), rope_params, factors=optional(rope_factors_short))
    k = rope_halves(split_heads(k, kv_heads), rope_params, factors=optional(rope_factors_short))
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal))
    h = norm(x, ffn_norm[i])
    return x + softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])

def model():
    check_heads()
    check_rope()
    check_experts_used()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, norm(x, output_norm)))

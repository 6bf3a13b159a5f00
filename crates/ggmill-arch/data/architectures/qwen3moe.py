"""Qwen 3 MoE: experts in every layer; normalized queries and keys."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rms_norm(q, attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(k, attn_k_norm[i], rms_norm_epsilon)
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

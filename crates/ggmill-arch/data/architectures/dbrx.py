"""DBRX: experts in every layer; queries, keys and values are clamped."""

def layer(x, i, rope_params):
    qkv = linear(attn_qkv[i], layer_norm(x, attn_norm[i], layer_norm_epsilon))
    q, k, v = split(clamp(qkv, -clip, clip) if clip > 0.0 else qkv, q_length, k_length, v_length)
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, kv_heads), rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal))
    h = layer_norm(x, attn_output_norm[i], layer_norm_epsilon)
    return x + softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])

def model():
    check_heads()
    check_rope()
    check_experts_used()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

"""Arcee: a Llama whose feed-forward layer is a squared ReLU without a gate."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(q, rope_params, factors=optional(rope_freqs))
    k = rope_pairs(k, rope_params, factors=optional(rope_freqs))
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + squared_relu_mlp(h, ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    check_rope_factors(rope_freqs)
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

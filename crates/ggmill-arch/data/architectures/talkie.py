"""Talkie: norms without weights; every layer adds the embedding of the token again."""

def layer(x, i, rope_params, tokens_normed):
    h = rms_norm(x, None, epsilon)
    q = rms_norm(rope_halves(split_heads(linear(attn_q[i], h), heads), rope_params), None, epsilon) * attn_q_norm[i]
    k = rms_norm(rope_halves(split_heads(linear(attn_k[i], h), kv_heads), rope_params), None, epsilon)
    x = x + linear(attn_output[i], attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, None, epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i]) + merge_heads(tokens_normed * layer_output_scale[i])

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = rms_norm(embed(token_embd, tokens), None, epsilon)
    tokens_normed = split_heads(x, 1)
    for i in range(block_count):
        x = layer(x, i, rope_params, tokens_normed)
    return logits(linear(output, rms_norm(x, None, epsilon)) * logit_scale)

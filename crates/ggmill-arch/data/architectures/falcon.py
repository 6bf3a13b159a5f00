"""Falcon: attention and feed-forward layer side by side, on inputs that may be normalized differently."""

def layer(x, i, rope_params):
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    a = layer_norm(x, attn_norm_2[i], layer_norm_epsilon) if has(attn_norm_2[i]) else h
    q, k, v = split(linear(attn_qkv[i], a), embedding_length, v_length, v_length)
    o = attention(rope_halves(split_heads(q, heads), rope_params), rope_halves(split_heads(k, kv_heads), rope_params), split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal)
    return x + linear(attn_output[i], o) + gelu_mlp(h, ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    check_embedding_is_heads()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

"""BERT: learned positions, normalization after each layer."""

def layer(x, i):
    q, k, v = project_qkv(x, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    o = attention(split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads), 1 / sqrt(key_length), causal=False)
    x = layer_norm(x + linear(attn_output[i], o), attn_output_norm[i], layer_norm_epsilon)
    return layer_norm(x + gelu_mlp(x, ffn_up[i], ffn_down[i]), layer_output_norm[i], layer_norm_epsilon)

def model():
    check_heads()
    x = embed(token_embd, tokens)
    x = x + embed(token_types.weight, 0) if has(token_types.weight) else x
    x = layer_norm(x + embed(position_embd, positions), token_embd_norm, layer_norm_epsilon)
    for i in range(block_count):
        x = layer(x, i)
    return embedding(x)

"""GPT-NeoX: attention and feed-forward layer side by side, or one after the other."""

def layer(x, i, rope_params):
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), embedding_length, v_length, v_length)
    o = attention(rope_halves(split_heads(q, heads), rope_params), rope_halves(split_heads(k, kv_heads), rope_params), split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal)
    r = x + linear(attn_output[i], o)
    h = layer_norm(x if first(use_parallel_residual, True) else r, ffn_norm[i], layer_norm_epsilon)
    return r + gelu_mlp(h, ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    check_embedding_is_heads()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

"""BLOOM: attention with ALiBi in place of positions."""

def layer(x, i):
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), embedding_length, v_length, v_length)
    o = attention(split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, alibi=8)
    x = x + linear(attn_output[i], o)
    return x + gelu_mlp(layer_norm(x, ffn_norm[i], layer_norm_epsilon), ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_embedding_is_heads()
    x = layer_norm(embed(token_embd, tokens), token_embd_norm, layer_norm_epsilon)
    for i in range(block_count):
        x = layer(x, i)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

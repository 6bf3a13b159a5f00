"""Jina BERT 2: BERT with ALiBi, and with a gate in the feed-forward layer."""

def layer(x, i):
    q, k, v = project_qkv(x, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = layer_norm(q, attn_q_norm[i], layer_norm_epsilon) if has(attn_q_norm[i]) else q
    k = layer_norm(k, attn_k_norm[i], layer_norm_epsilon) if has(attn_k_norm[i]) else k
    o = attention(split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads), 1 / sqrt(key_length), causal=False, alibi=8)
    r = layer_norm(x + linear(attn_output[i], o), attn_output_norm[i], layer_norm_epsilon)
    r = layer_norm(r + x, attn_norm_2[i], layer_norm_epsilon) if has(attn_norm_2[i]) else r
    g, u = split(linear(ffn_up[i], r), feed_forward, feed_forward)
    return layer_norm(r + linear(ffn_down[i], gelu(g) * u), layer_output_norm[i], layer_norm_epsilon)

def model():
    check_heads()
    assert kv_heads == heads, "there are other KV heads than attention heads"
    x = embed(token_embd, tokens)
    x = x + embed(token_types.weight, 0) if has(token_types.weight) else x
    x = layer_norm(x, token_embd_norm, layer_norm_epsilon)
    for i in range(block_count):
        assert not has(ffn_gate[i]), "a block has the gate of its feed-forward layer in a tensor of its own"
        x = layer(x, i)
    return embedding(x)

"""Jais: GPT-2 with ALiBi, and with SiLU and a gate in the feed-forward layer."""

def layer(x, i):
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), embedding_length, v_length, v_length)
    o = attention(split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads), 1.0 / key_length, causal=causal, alibi=max_bias)
    x = x + linear(attn_output[i], o)
    h = layer_norm(x, ffn_norm[i], layer_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_embedding_is_heads()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

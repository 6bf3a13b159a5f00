"""OLMo: layer norms without weights; queries, keys and values may be clamped."""

def clipped(x):
    limit = first(clip, 0.0)
    return clamp(x, -limit, limit) if limit > 0.0 else x

def layer(x, i, rope_params):
    h = layer_norm(x, None, layer_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(clipped(q), heads)
    k = split_heads(clipped(k), kv_heads)
    v = split_heads(clipped(v), kv_heads)
    q = rope_pairs(q, rope_params)
    k = rope_pairs(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = layer_norm(x, None, layer_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, layer_norm(x, None, layer_norm_epsilon)))

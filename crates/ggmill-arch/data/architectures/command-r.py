"""Command R: attention and feed-forward layer side by side."""

def layer(x, i, rope_params):
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(q, heads)
    k = split_heads(k, kv_heads)
    q = layer_norm(q, attn_q_norm[i], layer_norm_epsilon) if has(attn_q_norm[i]) else q
    k = layer_norm(k, attn_k_norm[i], layer_norm_epsilon) if has(attn_k_norm[i]) else k
    o = attention(rope_pairs(q, rope_params), rope_pairs(k, rope_params), split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal)
    return x + linear(attn_output[i], o) + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(token_embd, layer_norm(x, output_norm, layer_norm_epsilon)) * first(logit_scale, 1.0))

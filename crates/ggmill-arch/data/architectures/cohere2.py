"""Command R7B (Cohere 2): attention and feed-forward layer side by side; a window and positions in three
of four layers."""

def layer(x, i, rope_params):
    windowed = is_windowed(i, 4)
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(q, rope_params) if windowed else q
    k = rope_pairs(k, rope_params) if windowed else k
    o = attention(q, k, v, 1 / sqrt(key_length), causal=causal, window=window_length if windowed else 0)
    return x + linear(attn_output[i], o) + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    check_windows()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    scale = logit_scale if first(logit_scale, 0.0) != 0.0 else 1.0
    return logits(linear(token_embd, layer_norm(x, output_norm, layer_norm_epsilon)) * scale)

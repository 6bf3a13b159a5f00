"""EmbeddingGemma: Gemma 3 that attends in both directions."""

def layer(x, i, rope_params):
    windowed = window_length > 0 and is_windowed(i, 6)
    rope_params = unscaled(rope_params, local_base) if windowed else rope_params
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = split_heads(linear(attn_q[i], h), heads), split_heads(linear(attn_k[i], h), kv_heads), split_heads(linear(attn_v[i], h), kv_heads)
    q = rope_halves(rms_norm(q, attn_q_norm[i], rms_norm_epsilon), rope_params)
    k = rope_halves(rms_norm(k, attn_k_norm[i], rms_norm_epsilon), rope_params)
    reach = window_length // 2
    o = attention(q, k, v, 1 / sqrt(key_length), causal=False, window=reach + 1 if windowed else 0, ahead=reach if windowed else None)
    x = x + rms_norm(linear(attn_output[i], o), post_attention_norm[i], rms_norm_epsilon)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + rms_norm(geglu(h, ffn_gate[i], ffn_up[i], ffn_down[i]), post_ffw_norm[i], rms_norm_epsilon)

def model():
    check_heads()
    check_rope()
    check_windows()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * sqrt(embedding_length)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return embedding(rms_norm(x, output_norm, rms_norm_epsilon))

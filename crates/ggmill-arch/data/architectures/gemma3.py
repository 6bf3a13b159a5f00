"""Gemma 3: normalized queries and keys; five of six layers attend to a window, with another base of
rotary positions."""

def layer(x, i, rope_params):
    windowed = window_length > 0 and is_windowed(i, 6)
    rope_params = unscaled(rope_params, local_base) if windowed else rope_params
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(rms_norm(q, attn_q_norm[i], rms_norm_epsilon), rope_params)
    k = rope_halves(rms_norm(k, attn_k_norm[i], rms_norm_epsilon), rope_params)
    # The model with 62 layers (27B) scales scores by its width.
    length = embedding_length // heads if block_count == 62 else key_length
    o = attention(q, k, v, 1 / sqrt(length), causal=causal, window=window_length if windowed else 0)
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
    y = linear(output, rms_norm(x, output_norm, rms_norm_epsilon))
    limit = first(final_softcap, 0.0)
    return logits(softcap(y, limit) if limit != 0.0 else y)

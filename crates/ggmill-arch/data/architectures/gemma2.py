"""Gemma 2: normalization before and after each layer, windows in every second layer, soft caps."""

def layer(x, i, rope_params):
    windowed = is_windowed(i, 2)
    rope_params = with_base(rope_params, local_base) if windowed else rope_params
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    # The model with 46 layers (27B) scales scores by its width.
    length = embedding_length // heads if block_count == 46 else key_length
    o = attention(q, k, v, 1 / sqrt(length), causal=causal, softcap=first(attention_softcap, 50.0), window=window_length if windowed else 0)
    x = x + rms_norm(linear(attn_output[i], o), post_attention_norm[i], rms_norm_epsilon)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + rms_norm(geglu(h, ffn_gate[i], ffn_up[i], ffn_down[i]), post_ffw_norm[i], rms_norm_epsilon)

def model():
    check_heads()
    check_rope()
    check_windows()
    assert block_count != 46 or embedding_length >= heads, "embedding_length is less than the number of attention heads"
    assert first(attention_softcap, 50.0) > 0.0 and first(final_softcap, 30.0) > 0.0, "a softcap is not positive"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * sqrt(embedding_length)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(softcap(linear(token_embd, rms_norm(x, output_norm, rms_norm_epsilon)), first(final_softcap, 30.0)))

"""EXAONE 4: normalization after each layer, not before. The large model has windows, and positions only
in layers with one."""

def layer(x, i, rope_params):
    q, k, v = project_qkv(x, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rms_norm(split_heads(q, heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(k, kv_heads), attn_k_norm[i], rms_norm_epsilon)
    is_large = trunk_count >= 60
    windowed = is_large and is_windowed(i, 4)
    if windowed or not is_large:
        q = rope_halves(q, rope_params, factors=optional(rope_freqs))
        k = rope_halves(k, rope_params, factors=optional(rope_freqs))
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, window=first(window, 4096) if windowed else 0)
    x = x + rms_norm(linear(attn_output[i], o), post_attention_norm[i], rms_norm_epsilon)
    return x + rms_norm(swiglu(x, ffn_gate[i], ffn_up[i], ffn_down[i]), post_ffw_norm[i], rms_norm_epsilon)

def model():
    check_heads()
    check_rope()
    check_windows()
    check_rope_factors(rope_freqs)
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

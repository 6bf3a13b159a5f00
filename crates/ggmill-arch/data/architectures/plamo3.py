"""PLaMo 3: normalization before and after each layer; windows in seven of eight layers."""

def layer(x, i, rope_params):
    windowed = window_length > 0 and is_windowed(i, 8)
    q, k, v = split(linear(attn_qkv[i], rms_norm(x, attn_norm[i], rms_norm_epsilon)), q_length, k_length, v_length)
    rope_params = windowed_angles(rope_params) if windowed else rope_params
    q = rope_halves(rms_norm(split_heads(q, heads), attn_q_norm[i], rms_norm_epsilon), rope_params)
    k = rope_halves(rms_norm(split_heads(k, kv_heads), attn_k_norm[i], rms_norm_epsilon), rope_params)
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, window=window_length if windowed else 0)
    x = x + rms_norm(linear(attn_output[i], o), post_attention_norm[i], rms_norm_epsilon)
    return x + rms_norm(fused_swiglu(rms_norm(x, ffn_norm[i], rms_norm_epsilon), ffn_up[i], ffn_down[i]), post_ffw_norm[i], rms_norm_epsilon)

def windowed_angles(rope_params):
    """Angles that are not scaled, with the magnitude that is left without YaRN."""
    base, scale, magnitude, yarn = rope_params
    return [local_base, 1.0, magnitude / (1.0 + (yarn_growth() if yarn is not None else 0.0)), None]

def model():
    check_heads()
    check_rope()
    check_windows()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

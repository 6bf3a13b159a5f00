"""Muse Glimmer: gated attention; positions only in layers with a window."""

def layer(x, i, rope_params):
    is_local = window_length > 0 and windowed[i]
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = rms_norm(split_heads(linear(attn_q[i], h), heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(linear(attn_k[i], h), kv_heads), attn_k_norm[i], rms_norm_epsilon)
    if is_local:
        q = rope_pairs(q, with_base(rope_params, local_base))
        k = rope_pairs(k, with_base(rope_params, local_base))
    o = attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length), causal=causal, window=window_length if is_local else 0)
    x = x + rms_norm(linear(attn_output[i], o * sigmoid(linear(attn_gate[i], h))), post_attention_norm[i], 1e-8)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + rms_norm(swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i]), post_ffw_norm[i], 1e-8)

def model():
    check_heads()
    check_rope()
    check_windows()
    rope_params = rope_parameters()
    x = rms_norm(embed(token_embd, tokens), None, rms_norm_epsilon)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    y = linear(output, rms_norm(x, output_norm, rms_norm_epsilon)) * logit_scale
    return logits(softcap(y, final_softcap) if final_softcap != 0.0 else y)

"""GLM 4: a Llama with normalization before and after each layer."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    # Models for images have sections of positions, which text has not.
    if has(rope_sections):
        q = rope_halves(split_heads(q, heads), rope_params)
        k = rope_halves(split_heads(k, kv_heads), rope_params)
    else:
        q = rope_pairs(split_heads(q, heads), rope_params)
        k = rope_pairs(split_heads(k, kv_heads), rope_params)
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal)
    x = x + rms_norm(linear(attn_output[i], o), post_attention_norm[i], rms_norm_epsilon)
    return x + rms_norm(fused_swiglu(rms_norm(x, ffn_norm[i], rms_norm_epsilon), ffn_up[i], ffn_down[i]), post_ffw_norm[i], rms_norm_epsilon)

def model():
    check_heads()
    check_rope()
    check_sections()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""MiniCPM: a Llama with factors for embeddings and residuals."""

def layer(x, i, rope_params):
    step = residual_factor if residual_factor != 0.0 else 1.0
    factors = optional(rope_factors_short) if rope_scaling == "longrope" else None
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(split_heads(q, heads), rope_params, factors=factors)
    k = rope_pairs(split_heads(k, kv_heads), rope_params, factors=factors)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal)) * step
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i]) * step

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    x = x * (embedding_factor if embedding_factor != 0.0 else 1.0)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)) / (logit_divisor if logit_divisor != 0.0 else 1.0))

"""Apertus: attention with normalized queries and keys, and the activation xIELU."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = split_heads(linear(attn_q[i], h), heads), split_heads(linear(attn_k[i], h), kv_heads), split_heads(linear(attn_v[i], h), kv_heads)
    q = rope_halves(rms_norm(q, attn_q_norm[i], rms_norm_epsilon), rope_params, factors=optional(rope_freqs))
    k = rope_halves(rms_norm(k, attn_k_norm[i], rms_norm_epsilon), rope_params, factors=optional(rope_freqs))
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length)))
    return x + linear(ffn_down[i], xielu(linear(ffn_up[i], rms_norm(x, ffn_norm[i], rms_norm_epsilon)), i))

def xielu(u, i):
    """a u² + b u for positive u, c (exp(min(u, epsilon)) - 1 - u) + b u for others."""
    p = relu(u)
    n = u - p
    is_positive = clamp(p * 1e30, 0.0, 1.0)
    m = (exp(clamp(n, -1e30, xielu_eps[i])) - 1.0 - n) * slopes_n[i]
    return p * p * slopes_p[i] + m - m * is_positive + u * xielu_beta[i]

def model():
    check_heads()
    check_rope()
    assert has(xielu_alpha_n) and has(xielu_alpha_p) and has(xielu_beta) and has(xielu_eps), "a number of the activation is missing: xielu.alpha_n, alpha_p, beta or eps"
    assert (not is_list(xielu_beta) or len(xielu_beta) >= block_count) and (not is_list(xielu_eps) or len(xielu_eps) >= block_count), "xielu.beta or xielu.eps has fewer elements than there are blocks"
    check_rope_factors(rope_freqs)
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

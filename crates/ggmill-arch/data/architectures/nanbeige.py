"""Nanbeige: a Llama that may run all its layers twice."""

def layer(x, i, angles):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(q, angles, factors=optional(rope_freqs))
    k = rope_pairs(k, angles, factors=optional(rope_freqs))
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    assert loops <= 2, "num_loops is greater than 2"
    check_rope_factors(rope_freqs)
    angles = rope_angles()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, angles)
    if loops == 2 and not skip_loop_final_norm:
        x = rms_norm(x, output_norm, rms_norm_epsilon)
    for i in range(block_count if loops == 2 else 0):
        x = layer(x, i, angles)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

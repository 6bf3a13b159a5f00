"""Granite with windows: attention with sinks, to a window in the layers of a list, and positions in those of another."""

from granite import embedding_factor, logit_divisor, residual_factor, score_scale

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(q, heads)
    k = split_heads(k, kv_heads)
    if not has(rope_written) or rope_written[i]:
        q = rope_pairs(q, rope_params, factors=optional(rope_freqs))
        k = rope_pairs(k, rope_params, factors=optional(rope_freqs))
    o = attention(q, k, split_heads(v, kv_heads), score_scale(), causal=causal, window=window_length if window_period[i] else 0, sinks=attn_sinks[i])
    x = x + linear(attn_output[i], o) * residual_factor()
    return x + feed_forward_layer(rms_norm(x, ffn_norm[i], rms_norm_epsilon), i) * residual_factor()

def feed_forward_layer(h, i):
    if expert_count == 0:
        return swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    g, u = split(expert_linear(ffn_gate_up_exps[i], h, experts), feed_forward, feed_forward)
    y = weighted_sum(expert_linear(ffn_down_exps[i], silu(g) * u, experts), normalize(gather(p, experts)))
    if shared_length > 0:
        y = y + fused_swiglu(h, ffn_up_shexp[i], ffn_down_shexp[i], shared_length)
    return y

def model():
    check_heads()
    check_rope()
    check_windows()
    assert expert_count == 0 or experts_used > 0 and experts_used <= expert_count, "expert_used_count is 0, or greater than the number of experts"
    assert is_list(window_period), "attention.sliding_window_pattern is not a list"
    assert not has(rope_written) or len(rope_written) >= block_count, "attention.rope_pattern does not have one element for each layer"
    check_rope_factors(rope_freqs)
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * embedding_factor()
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)) / logit_divisor())

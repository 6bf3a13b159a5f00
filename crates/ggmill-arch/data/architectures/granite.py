"""Granite: a Llama with factors for embeddings, scores and residuals; experts in some models."""

def layer(x, i, rope_params, factors):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(q, heads)
    k = split_heads(k, kv_heads)
    if turned:
        q = rope_pairs(q, rope_params, factors=factors)
        k = rope_pairs(k, rope_params, factors=factors)
    o = attention(q, k, split_heads(v, kv_heads), score_scale(), causal=causal)
    x = x + linear(attn_output[i], o) * residual_factor()
    return x + feed_forward_layer(rms_norm(x, ffn_norm[i], rms_norm_epsilon), i) * residual_factor()

def feed_forward_layer(h, i):
    if expert_count == 0:
        return swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    u = expert_linear(ffn_up_exps[i], h, experts)
    u = silu(expert_linear(ffn_gate_exps[i], h, experts)) * u if has(ffn_gate_exps[i]) else silu(u)
    y = weighted_sum(expert_linear(ffn_down_exps[i], u, experts), normalize(gather(p, experts)))
    return y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if has(ffn_up_shexp[i]) else y

def score_scale():
    return attention_scale if first(attention_scale, 0.0) != 0.0 else 1 / sqrt(key_length)

def residual_factor():
    return residual_scale if first(residual_scale, 0.0) != 0.0 else 1.0

def embedding_factor():
    return embedding_scale if first(embedding_scale, 0.0) != 0.0 else 1.0

def logit_divisor():
    return logit_scale if first(logit_scale, 0.0) != 0.0 else 1.0

def model():
    check_heads()
    check_rope()
    assert expert_count == 0 or experts_used > 0 and experts_used <= expert_count, "expert_used_count is 0, or greater than the number of experts"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * embedding_factor()
    factors = first(optional(rope_freqs), optional(rope_factors_short))
    for i in range(block_count):
        x = layer(x, i, rope_params, factors)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)) / logit_divisor())

"""Granite MoE: experts in every layer, and factors for embeddings, scores and residuals."""

from granite import embedding_factor, logit_divisor, residual_factor, score_scale

def layer(x, i, rope_params, factors):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_pairs(split_heads(q, heads), rope_params, factors=factors)
    k = rope_pairs(split_heads(k, kv_heads), rope_params, factors=factors)
    o = attention(q, k, split_heads(v, kv_heads), score_scale(), causal=causal)
    x = x + linear(attn_output[i], o) * residual_factor()
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    y = softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    y = y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if has(ffn_up_shexp[i]) else y
    return x + y * residual_factor()

def model():
    check_heads()
    check_rope()
    check_experts_used()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * embedding_factor()
    factors = first(optional(rope_freqs), optional(rope_factors_short))
    for i in range(block_count):
        x = layer(x, i, rope_params, factors)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)) / logit_divisor())

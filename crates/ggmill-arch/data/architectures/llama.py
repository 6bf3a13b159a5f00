"""Llama, Mistral, and Mixtral with its experts."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i], heads * head_length, kv_heads * head_length, kv_heads * value_length)
    factors = first(optional(rope_freqs), optional(rope_factors_short))
    q = rope_pairs(split_heads(q, heads), rope_params, factors=factors)
    k = rope_pairs(split_heads(k, kv_heads), rope_params, factors=factors)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(head_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if experts == 0:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    return x + moe(h, i)

def moe(h, i):
    p = softmax(linear(ffn_gate_inp[i], h))
    chosen = top_k(p, expert_used_count[0])
    u = expert_linear(ffn_up_exps[i], h, chosen)
    u = silu(expert_linear(ffn_gate_exps[i], h, chosen)) * u if has(ffn_gate_exps[i]) else silu(u)
    return weighted_sum(expert_linear(ffn_down_exps[i], u, chosen), normalize(gather(p, chosen)))

def model():
    assert heads > 0 and kv_heads > 0 and head_length == value_length and head_length % 2 == 0, "a number of attention heads is 0, or the lengths of keys and values differ or are odd"
    assert heads % kv_heads == 0, "the number of attention heads is not a multiple of the number of KV heads"
    if experts > 0:
        used = first(expert_used_count[0], 0)
        assert used > 0 and used <= experts, "expert_used_count is 0, or greater than the number of experts"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

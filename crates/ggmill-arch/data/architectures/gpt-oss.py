"""gpt-oss: experts with a clamped gate, attention with sinks and with a window in every second layer."""

def layer(x, i, rope_params):
    windowed = is_windowed(i, 2)
    rope_params = with_base(rope_params, local_base) if windowed else rope_params
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    o = attention(q, k, v, 1 / sqrt(key_length), causal=causal, sinks=attn_sinks[i], window=window_length if windowed else 0)
    x = x + linear(attn_output[i], o)
    h = rms_norm(x, post_attention_norm[i], rms_norm_epsilon)
    p = linear(ffn_gate_inp[i], h)
    experts = top_k(p, experts_used)
    u = swiglu_oai(expert_linear(ffn_gate_exps[i], h, experts), expert_linear(ffn_up_exps[i], h, experts))
    return x + weighted_sum(expert_linear(ffn_down_exps[i], u, experts), softmax(gather(p, experts)))

def model():
    check_heads()
    check_rope()
    check_windows()
    assert rope_length == key_length and expert_length > 0 and experts_used > 0, "rope.dimension_count differs from the head dimension, or the width or the number of experts is 0"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

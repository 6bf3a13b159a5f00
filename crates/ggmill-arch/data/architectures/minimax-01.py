"""MiniMax-01: linear attention that decays by a fixed rate of each head in most layers, attention in the
others; experts. Residuals are taken after the normalization."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    o = lightning_attention(h, i) if recurrent[i] else softmax_attention(h, i, rope_params)
    h = rms_norm(linear(attn_output[i], o) + h * residual_scale, ffn_norm[i], rms_norm_epsilon)
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p + exp_probs_b[i].bias if has(exp_probs_b[i].bias) else p, experts_used)
    return weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), normalize(gather(p, experts))) + h * residual_scale

def softmax_attention(h, i, rope_params):
    q = rope_halves(split_heads(linear(attn_q[i], h), heads), rope_params)
    k = rope_halves(split_heads(linear(attn_k[i], h), kv_heads), rope_params)
    return attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length), causal=causal)

def lightning_attention(h, i):
    q, k, v = split(split_heads(silu(linear(attn_qkv[i], h)), heads), key_length, key_length, key_length)
    decay = exp(constant(slopes) * (i * 1.0 / (block_count - 1) - 1.00001))
    o = merge_heads(linear_recurrence(q, k, v, split_heads(decay, heads)))
    return rms_norm(o, attn_norm_2[i], rms_norm_epsilon) * sigmoid(linear(attn_gate[i], h))

def model():
    check_rope()
    assert key_length > 0 and key_length == value_length and kv_heads > 0 and heads % kv_heads == 0, "a number or a length of attention heads is 0, keys and values differ in length, or the number of heads is not a multiple of the number of KV heads"
    check_experts()
    check_no_expert_groups()
    assert interval > 0 and (not is_list(recurrent) or len(recurrent) >= block_count) and block_count >= 2, "full_attention_interval is 0, attention.recurrent_layers does not have one element for each layer, or there is one layer only"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        has_linear = has(attn_qkv[i]) and has(attn_gate[i]) and has(attn_norm_2[i])
        has_softmax = has(attn_q[i]) and has(attn_k[i]) and has(attn_v[i])
        assert has_linear and recurrent[i] or has_softmax and not recurrent[i], "a layer lacks tensors of its attention"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

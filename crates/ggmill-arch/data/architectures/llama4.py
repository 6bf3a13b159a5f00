"""Llama 4: experts and a shared expert in some layers. Three of four layers rotate queries and keys and
may attend within chunks of 8192 tokens; the others have no positions, and queries that grow with them."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = split_heads(linear(attn_q[i], h), heads), split_heads(linear(attn_k[i], h), kv_heads), split_heads(linear(attn_v[i], h), kv_heads)
    is_local = chunk_period[i] if is_list(chunk_period) else (i + 1) % chunk_period != 0
    if (i + 1) % 4 == 0:
        q = scale_by_position(q, 8192, 0.1, offset=1)
    else:
        rope_params = with_base(rope_params, local_base) if is_local else rope_params
        q = rope_pairs(q, rope_params, factors=optional(rope_freqs))
        k = rope_pairs(k, rope_params, factors=optional(rope_freqs))
        # All but the model with 128 experts normalize them.
        if expert_count != 128:
            q = rms_norm(q, None, rms_norm_epsilon)
            k = rms_norm(k, None, rms_norm_epsilon)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), chunk=8192 if is_local else 0))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if expert_interval == 0 or (i + 1) % max(expert_interval, 1) != 0:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    return x + moe(h, i) + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])

def moe(h, i):
    """Experts whose weights multiply their inputs."""
    p = linear(ffn_gate_inp[i], h)
    experts = top_k(p, experts_used)
    weights = sigmoid(gather(p, experts))
    u = repeat(h, experts_used) * split_heads(weights, experts_used)
    return weighted_sum(expert_swiglu(u, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), weights - weights + 1.0)

def model():
    check_heads()
    check_rope()
    assert key_length == rope_length and value_length == key_length, "the lengths of keys, values and rotary positions are not the same"
    assert first(window_written, 1) != 0, "attention.sliding_window is 0, which llama.cpp cannot run"
    assert expert_count > 0 and experts_used > 0 and experts_used <= expert_count and expert_length > 0, "there are no experts, or fewer than a token uses"
    assert local_base > 0.0, "rope.freq_base_swa is not positive"
    assert (not is_list(chunk_period) or len(chunk_period) >= block_count) and (is_list(chunk_period) or chunk_period != 0), "attention.sliding_window_pattern is 0, or does not have one element for each layer"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

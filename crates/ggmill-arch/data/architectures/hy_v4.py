"""Hunyuan V4: residual streams that a gate reads and another writes (hyper-connections); latent attention
with sinks and a gate, to the tokens that an indexer selects; experts behind dense layers."""

def layer(x, i, rope_params, picks):
    """The new streams, and the tokens that this and the next layers attend to."""
    read, write = stream_gates(x, hc_attn_fn[i], hc_attn_scale[i], hc_attn_base[i])
    h = rms_norm(weighted_sum(x, read), attn_norm[i], rms_norm_epsilon)
    s = rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon)
    q_plain, q_rope = split(split_heads(linear(attn_q_b[i], s), heads), plain_length, rope_length)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), kv_rank, rope_length)
    c = rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)
    k = concat(c, rope_pairs(k_rope, rope_params))
    q = concat(head_linear(attn_k_b[i], q_plain), rope_pairs(q_rope, rope_params))
    if sparse_top > 0 and kinds_in_file[i]:
        picks = selected(h, s, i, rope_params)
    o = attention(q, k, c, 1 / sqrt(key_mla), sinks=attn_sinks[i], picks=picks)
    o = merge_heads(head_linear(attn_v_b[i], split_heads(o, heads))) * sigmoid(linear(attn_gate[i], h))
    x = x + repeat(linear(attn_output[i], o), streams) * split_heads(write, streams)
    read, write = stream_gates(x, hc_ffn_fn[i], hc_ffn_scale[i], hc_ffn_base[i])
    h = rms_norm(weighted_sum(x, read), ffn_norm[i], rms_norm_epsilon)
    return x + repeat(feed_forward_layer(h, i), streams) * split_heads(write, streams), picks

def stream_gates(x, fn, scale, base):
    """What a layer reads of each stream, and what it writes to each."""
    read, write = split(linear(fn, rms_norm(merge_heads(x), None, rms_norm_epsilon)), streams, streams)
    g, h = split(embed(scale, 0), 1, 1)
    read, write = split(sigmoid(concat(read * g, write * h) + base), streams, streams)
    write = write * streams_magnitude + streams_epsilon
    return read + streams_epsilon, write

def selected(h, s, i, rope_params):
    plain = index_length - rope_length
    q_plain, q_rope = split(split_heads(linear(indexer.attn_q_b[i], s), index_heads), plain, rope_length)
    k_plain, k_rope = split(layer_norm(linear(indexer.attn_k[i], h), indexer.k_norm[i], rms_norm_epsilon), plain, rope_length)
    q = concat(q_plain, rope_pairs(q_rope, rope_params))
    k = concat(k_plain, rope_pairs(k_rope, rope_params))
    return select_tokens(q, k, linear(indexer.proj[i], h), sparse_top)

def feed_forward_layer(h, i):
    if i < leading_dense:
        return swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, expert_norm, expert_scale, expert_gating, groups=groups, used_groups=used_groups)
    g, u = expert_gate_up(h, experts, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i])
    u = clamped_swiglu(g, u, limits[i])
    return weighted_sum(expert_linear(ffn_down_exps[i], u, experts), weights) + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])

def model():
    check_rope()
    check_expert_groups()
    check_no_next_tokens()
    check_gating()
    assert leading_dense >= block_count or experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"
    assert heads > 0 and value_mla > 0 and kv_rank > 0 and q_rank > 0 and plain_length >= 1 and streams > 0, "a number or a length of attention heads, or hyper_connection.count, is 0, or rope.dimension_count is not less than the length of a key"
    assert sparse_top == 0 or sparse and first(index_heads, 0) != 0 and first(index_length, 0) > rope_length, "a number of the indexer is 0, or rope.dimension_count is not less than the length of its heads"
    assert (not is_list(kinds_in_file) or len(kinds_in_file) >= block_count) and (not is_list(limits) or len(limits) >= block_count), "attention.indexer.types or swiglu_clamp_exp does not have one element for each layer"
    assert sparse_top == 0 or kinds_in_file[0], "the first layer has no indexer"
    rope_params = rope_parameters()
    x = repeat(embed(token_embd, tokens), streams)
    output_scale = embed(output_hc_scale, 0)
    picks = None
    for i in range(block_count):
        x, picks = layer(x, i, rope_params, picks)
    read = sigmoid(linear(output_hc_fn, rms_norm(merge_heads(x), None, rms_norm_epsilon)) * output_scale + output_hc_base)
    return logits(linear(output, rms_norm(weighted_sum(x, read + streams_epsilon), output_norm, rms_norm_epsilon)))

"""DeepSeek V4: four residual streams that are mixed before and after each layer (hyper-connections);
attention to the tokens of a window and to runs of 4 or 128 tokens that were compressed to one key; experts
that the first layers choose by the token, and later layers by scores."""

def layer(x, i, rope_params, output_scale):
    """The new streams, and the scale of the weights with which the output reads the streams."""
    read, write, mixing = connection_weights(x, hc_attn_fn[i], hc_attn_scale[i], hc_attn_base[i])
    h = rms_norm(weighted_sum(x, read), attn_norm[i], rms_norm_epsilon)
    # The scale for the output is read here: llama.cpp computes what follows the last layer for few tokens.
    output_scale = embed(output_hc_scale, 0) if i == 0 else output_scale
    x = write_streams(x, attend(h, i, rope_params), write, mixing)
    read, write, mixing = connection_weights(x, hc_ffn_fn[i], hc_ffn_scale[i], hc_ffn_base[i])
    h = rms_norm(weighted_sum(x, read), ffn_norm[i], rms_norm_epsilon)
    return write_streams(x, moe(h, i), write, mixing), output_scale

def attend(h, i, rope_params):
    ratio = ratios[i]
    # Only where there is compression, positions are scaled.
    rope_params = [compress_freq_base, rope_params[1], 1.0, rope_params[3]] if ratio > 0 else plain_rope_parameters(rope_params[0])
    plain = key_length - rope_length
    q_latent = rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon)
    q = partly_rotated(rms_norm(split_heads(linear(attn_q_b[i], q_latent), heads), None, rms_norm_epsilon), plain, rope_params)
    # One vector is the key and the value of all heads.
    kv = partly_rotated(rms_norm(linear(attn_kv[i], h), attn_kv_a_norm[i], rms_norm_epsilon), plain, rope_params)
    if ratio == 0:
        o = attention(q, kv, kv, 1 / sqrt(key_length), window=sliding_window, sinks=attn_sinks[i])
    else:
        runs = compressed_runs(h, i, ratio, plain, rope_params)
        picks = selected_runs(h, q_latent, i, ratio, rope_params) if ratio == 4 else None
        o = attention(q, kv, kv, 1 / sqrt(key_length), window=sliding_window, sinks=attn_sinks[i], run=ratio, run_keys=runs, run_values=runs, picks=picks)
    # Values are keys, and so were rotated.
    o = merge_heads(partly_rotated(split_heads(o, heads), plain, rope_params, back=True))
    return linear(attn_output_b[i], merge_heads(head_linear(attn_output_a[i], split_heads(o, groups))))

def partly_rotated(x, plain, rope_params, back=False):
    n, r = split(x, plain, rope_length)
    return concat(n, rope_pairs(r, rope_params, back=back))

def compressed_runs(h, i, ratio, plain, rope_params):
    """One key, which is also the value, for each run of `ratio` tokens."""
    values = linear(attn_compressor_kv[i], h)
    scores = linear(attn_compressor_gate[i], h) + embed(attn_compressor_ape[i], positions, cyclic=True)
    runs = pooled(values, scores, ratio)
    return partly_rotated(rms_norm(runs, attn_compressor_norm[i], rms_norm_epsilon), plain, rope_params)

def pooled(values, scores, ratio):
    """A weighted sum over the tokens of a run. For runs of 4 tokens, values have two halves: a run is the sum
    over the second halves of its tokens and the first halves of the tokens of the run before it."""
    if ratio == 4:
        return pool_runs(split_heads(values, 2), split_heads(scores, 2), ratio)
    return pool_runs(values, scores, ratio)

def selected_runs(h, q_latent, i, ratio, rope_params):
    """The runs that the indexer selects."""
    plain = index_length - rope_length
    q = partly_rotated(split_heads(linear(indexer.attn_q_b[i], q_latent), index_heads), plain, rope_params)
    scores = linear(indexer_compressor_gate[i], h) + embed(indexer_compressor_ape[i], positions, cyclic=True)
    k = pooled(linear(indexer_compressor_kv[i], h), scores, ratio)
    k = partly_rotated(rms_norm(k, indexer_compressor_norm[i], rms_norm_epsilon), plain, rope_params)
    return select_tokens(q, k, linear(indexer.proj[i], h), index_top, block=ratio, whole=True)

def moe(h, i):
    p = sqrt(softplus(linear(ffn_gate_inp[i], h)))
    # The first layers have a table of the experts of each token of the vocabulary.
    if i < hash_blocks:
        experts = expert_indices(embed(ffn_gate_tid2eid[i], tokens), expert_count)
    else:
        experts = top_k(p + exp_probs_b[i].bias, experts_used)
    g, u = expert_linear(ffn_gate_exps[i], h, experts), expert_linear(ffn_up_exps[i], h, experts)
    weights = normalize(gather(p, experts)) if expert_norm else gather(p, experts)
    weights = weights * expert_scale if expert_scale != 0.0 else weights
    y = weighted_sum(expert_linear(ffn_down_exps[i], clamped_swiglu(g, u, limits[i]), experts), weights)
    g, u = linear(ffn_gate_shexp[i], h), linear(ffn_up_shexp[i], h)
    return y + linear(ffn_down_shexp[i], clamped_swiglu(g, u, shared_limits[i]))

def connection_weights(x, fn, scale, base):
    """Three sets of weights: of each stream in the input of the attention or of the experts, of their result in
    each stream (before the sigmoid in `write_streams`), and of each stream (row) in each new stream (column)."""
    read, write, mixing = split(linear(fn, rms_norm(merge_heads(x), None, rms_norm_epsilon)), streams, streams, streams * streams)
    read_scale, write_scale, mixing_scale = split(embed(scale, 0), 1, 1, 1)
    read, write, mixing = split(concat(concat(read * read_scale, write * write_scale), mixing * mixing_scale) + base, streams, streams, streams * streams)
    mixing = sinkhorn(softmax(split_heads(mixing, streams)) + streams_epsilon, streams_iterations, streams_epsilon)
    return sigmoid(read) + streams_epsilon, write, mixing

def write_streams(x, y, write, mixing):
    """The streams, mixed, plus the result of the attention or of the experts."""
    a, b, c, d = split(mixing, 1, 1, 1, 1)
    return repeat(y, streams) * split_heads(sigmoid(write) * 2.0, streams) + split_heads(concat(
        concat(weighted_sum(x, merge_heads(a)), weighted_sum(x, merge_heads(b))),
        concat(weighted_sum(x, merge_heads(c)), weighted_sum(x, merge_heads(d)))), streams)

def check_clamps():
    assert (not is_list(limits) or len(limits) >= trunk_count) and (not is_list(shared_limits) or len(shared_limits) >= trunk_count), "swiglu_clamp_exp or swiglu_clamp_shexp does not have one element for each layer"

def model():
    check_rope()
    assert streams == 4 and streams_iterations > 0, "hyper_connection.count is not 4, or hyper_connection.sinkhorn_iterations is 0"
    assert has(context_length) and nextn_count < block_count, "context_length is missing, or nextn_predict_layers is not less than block_count"
    check_no_next_tokens()
    assert heads > 0 and groups > 0 and heads % groups == 0 and output_rank > 0 and q_rank > 0 and key_length == value_length and rope_length < key_length, "a number of attention heads or a rank is 0, the groups do not divide the heads, the lengths of keys and values differ, or rope.dimension_count is not less than they are"
    assert sliding_window > 0 and index_heads > 0 and index_length > rope_length and index_top > 0, "attention.sliding_window or a number of the indexer is 0, or rope.dimension_count is not less than the length of its heads"
    assert len(ratios) >= block_count and compress_freq_base > 0.0, "attention.compress_ratios does not have one element for each layer, or attention.compress_rope_freq_base is not positive"
    check_clamps()
    assert expert_gating == 4 and first(expert_group_count, 0) <= 1, "expert_gating_func is not the square root of softplus, or there are groups of experts"
    assert experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0, "expert_used_count is 0 or greater than the number of experts, or the width of an expert is 0"
    rope_params = rope_parameters()
    x = repeat(embed(token_embd, tokens), streams)
    output_scale = None
    for i in range(trunk_count):
        assert ratios[i] in [0, 4, 128], "an element of attention.compress_ratios is neither 0 nor 4 nor 128"
        x, output_scale = layer(x, i, rope_params, output_scale)
    read = sigmoid(linear(output_hc_fn, rms_norm(merge_heads(x), None, rms_norm_epsilon)) * output_scale + output_hc_base)
    return logits(linear(output, rms_norm(weighted_sum(x, read + streams_epsilon), output_norm, rms_norm_epsilon)))

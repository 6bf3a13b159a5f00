"""Qwen 4 (experimental): residual streams that gates of low rank read and write (hyper-connections);
linear attention (gated delta rule) in most layers, in the others gated attention, to the runs of tokens that an
indexer selects; in one layer, embeddings of the last few tokens (n-grams); experts with a shared expert."""

from qwen35 import check_delta, delta_inputs, gated_delta, gated_queries

def layer(x, i, rope_params, shares, grams):
    if i in ngram_layers:
        x = x + ngrams_of(x, grams, i)
    n = merge_heads(rms_norm(x, hc_attn_norm[i], rms_norm_epsilon))
    write = linear(hc_attn_inject[i], n)
    h = gated_sum(n, hc_attn_down[i], hc_attn_up[i], shares)
    y = delta_attention(h, i) if recurrent[i] else gated_attention(h, i, rope_params)
    x = x + repeat(y, streams) * split_heads(sigmoid(write / streams) * 2.0, streams)
    n = merge_heads(rms_norm(x, hc_ffn_norm[i], rms_norm_epsilon))
    write = linear(hc_ffn_inject[i], n)
    h = gated_sum(n, hc_ffn_down[i], hc_ffn_up[i], shares)
    y = softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    shared = swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])
    y = y + shared * sigmoid(linear(ffn_gate_inp_shexp[i], h))
    return x + repeat(y, streams) * split_heads(sigmoid(write / streams) * 2.0, streams)

def gated_sum(n, down, up, shares):
    """The mean of the streams, each number multiplied by a gate."""
    return weighted_sum(split_heads(n * sigmoid(linear(up, silu(linear(down, n) / streams))), streams), shares)

def ngrams_of(x, grams, i):
    """What the n-grams that end at the token add to each stream, by how well they match it."""
    k = rms_norm(split_heads(linear(ple_key[i], grams), streams), ple_norm_key[i], rms_norm_epsilon)
    s = sum(k * rms_norm(x, ple_norm_query[i], rms_norm_epsilon)) / sqrt(embedding_length)
    # The sign of s, which is exact, and the square root of its absolute value, sign * s.
    sign = clamp(s * 3.4e38 * 3.4e38, -1.0, 1.0)
    gate = sigmoid(sign * sqrt(clamp(s * sign, 0.000001, 3.4e38)))
    v = repeat(linear(ple_value[i], grams), streams) * gate
    return v + silu(causal_conv(ple_conv1d[i], rms_norm(v, ple_norm_conv[i], rms_norm_epsilon), dilation=ngram_size))

def delta_attention(h, i):
    q, k, v, z = delta_inputs(h, attn_qkv[i], ssm_conv1d[i], attn_gate[i])
    y = gated_delta(h, q, k, v, ssm_beta[i], ssm_alpha[i], ssm_dt[i].bias, ssm_a[i])
    return linear(ssm_out[i], merge_heads(rms_norm(y, ssm_norm[i], rms_norm_epsilon) * sigmoid(z)))

def gated_attention(h, i, rope_params):
    q, gate, k = gated_queries(h, attn_q[i], attn_k[i], attn_q_norm[i], attn_k_norm[i], rope_params)
    picks = selected_runs(h, i, ratios[i], rope_params) if ratios[i] > 0 else None
    y = attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length), picks=picks)
    return linear(attn_output[i], y * sigmoid(merge_heads(gate)))

def selected_runs(h, i, ratio, rope_params):
    """The runs of tokens that the indexer selects, by the mean of the keys of each run."""
    k = linear(indexer.k_proj[i], h)
    k = rms_norm(pool_runs(k, k * 0.0, ratio), indexer.k_norm[i], rms_norm_epsilon)
    k = rope_halves(k, rope_params)
    q = rms_norm(split_heads(linear(indexer.q_proj[i], h), indexer_heads), indexer.q_norm[i], rms_norm_epsilon)
    q = rope_halves(q, rope_params)
    return select_tokens(q, k, constant(indexer_shares), indexer_budget // ratio, block=ratio, whole=True)

def model():
    check_rope()
    check_delta()
    check_no_next_tokens()
    assert streams >= 2 and stream_rank > 0, "hyper_connection.count is less than 2, or hyper_connection.low_rank is 0"
    assert experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"
    assert indexer_heads > 0 and indexer_length >= rope_length and indexer_budget > 0, "a number of the indexer is 0, or rope.dimension_count is greater than the length of its heads"
    assert not is_list(ratios) or len(ratios) >= trunk_count, "attention.compress_ratios does not have one element for each layer"
    assert len(ngram_layers) <= 1, "there are several layers with embeddings of n-grams (ple.layers)"
    if ngrams:
        assert ngram_layer < trunk_count and recurrent[ngram_layer], "the layer with embeddings of n-grams (ple.layers) is not one with linear attention"
        assert has(ngram_size) and has(ngram_heads) and has(ngram_kernel) and has(ngram_end) and ngram_row > 0, "a number of the embeddings of n-grams is missing (ple.ngram_size, ple.heads_per_ngram, ple.conv_kernel, ple.eos_token_id), or embedding_length_per_layer_input is"
        assert ngram_size >= 2 and ngram_heads > 0 and ngram_kernel > 0, "ple.ngram_size is less than 2, or ple.heads_per_ngram or ple.conv_kernel is 0"
        assert len(ngram_multipliers) == ngram_size and len(ngram_offsets) == (ngram_size - 1) * ngram_heads and len(ngram_vocabularies) == (ngram_size - 1) * ngram_heads, "ple.layer_multipliers, ple.head_offsets or ple.head_vocab_sizes does not have one element for each token of an n-gram, or for each head"
        assert ngram_misses == 0, "rows of a head in ple.head_offsets and ple.head_vocab_sizes are beyond their table"
    rope_params = rope_parameters()
    x = repeat(embed(token_embd, tokens), streams)
    shares = constant(stream_shares)
    grams = None
    if ngrams:
        grams = merge_heads(hashed_embed(per_layer_token_embd, tokens, ngram_multipliers, ngram_vocabularies, ngram_offsets, ngram_end))
    for i in range(trunk_count):
        assert recurrent[i] or ratios[i] >= 0 and (ratios[i] == 0 or indexer_budget % ratios[i] == 0), "attention.indexer.top_k is not a multiple of the number of tokens that become one in a layer (attention.compress_ratios)"
        x = layer(x, i, rope_params, shares, grams)
    n = merge_heads(rms_norm(x, output_hc_norm, rms_norm_epsilon))
    return logits(linear(output, gated_sum(n, output_hc_down, output_hc_up, shares)))

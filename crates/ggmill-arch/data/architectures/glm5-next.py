"""GLM 5 Next: four residual streams that are mixed before and after each layer (hyper-connections); linear
attention (Kimi Delta Attention) in most layers, in the others latent attention without positions to the
runs of tokens that an indexer selects; experts behind dense layers."""

from deepseek4 import check_clamps, connection_weights, write_streams
from kimi_linear import short_conv_heads, unit_heads

def layer(x, i, picks):
    """The new streams, and the runs that this and the next layers attend to."""
    read, write, mixing = connection_weights(x, hc_attn_fn[i], hc_attn_scale[i], hc_attn_base[i])
    h = rms_norm(weighted_sum(x, read), attn_norm[i], rms_norm_epsilon)
    if kda[i]:
        y = delta_attention(h, i)
    else:
        y, picks = latent_attention(h, i, picks)
    x = write_streams(x, linear(attn_output[i], y), write, mixing)
    read, write, mixing = connection_weights(x, hc_ffn_fn[i], hc_ffn_scale[i], hc_ffn_base[i])
    h = rms_norm(weighted_sum(x, read), ffn_norm[i], rms_norm_epsilon)
    return write_streams(x, feed_forward_layer(h, i), write, mixing), picks

def delta_attention(h, i):
    q = short_conv_heads(h, attn_q[i], ssm_conv1d_q[i], heads)
    k = short_conv_heads(h, attn_k[i], ssm_conv1d_k[i], heads)
    v = short_conv_heads(h, attn_v[i], ssm_conv1d_v[i], heads)
    q, k = unit_heads(q, k, kda_head_length, 1e-6)
    beta = sigmoid(split_heads(linear(ssm_beta[i], h), heads))
    decay = split_heads(linear(ssm_f_b[i], linear(ssm_f_a[i], h)) + ssm_dt[i].bias, heads)
    if has(gate_bound):
        decay = exp(sigmoid(-(decay * ssm_a[i])) * gate_bound)
    else:
        decay = exp(softplus(decay) * ssm_a[i])
    y = merge_heads(rms_norm(delta_rule(q, k, v, beta, decay), ssm_norm[i], rms_norm_epsilon))
    return y * sigmoid(linear(ssm_g_b[i], linear(ssm_g_a[i], h)))

def latent_attention(h, i, picks):
    s = rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon)
    q = head_linear(attn_k_b[i], split_heads(linear(attn_q_b[i], s), heads))
    c = rms_norm(linear(attn_kv_a_mqa[i], h), attn_kv_a_norm[i], rms_norm_epsilon)
    if indexed[i]:
        assert has(indexer.attn_k[i]) and has(indexer.attn_q_b[i]) and has(indexer.k_norm[i]) and has(indexer.proj[i]) and has(indexer_compressor_gate[i]) and has(indexer_compressor_ape[i]), "a layer lacks tensors of its indexer"
        picks = selected_runs(h, s, i)
    assert has(picks), "the first layer with latent attention has no indexer"
    o = attention(q, c, c, 1 / sqrt(key_mla), picks=picks)
    return merge_heads(head_linear(attn_v_b[i], split_heads(o, heads))), picks

def selected_runs(h, s, i):
    """The runs that the indexer selects, by keys that are pooled over the tokens of each run."""
    q = split_heads(linear(indexer.attn_q_b[i], s), index_heads)
    k = layer_norm(linear(indexer.attn_k[i], h), indexer.k_norm[i], first(layer_norm_epsilon, 0.0))
    k = pool_runs(k, linear(indexer_compressor_gate[i], h) + embed(indexer_compressor_ape[i], positions, cyclic=True), pool_length)
    return select_tokens(q, k, linear(indexer.proj[i], h), index_top // pool_length, block=pool_length, whole=True)

def feed_forward_layer(h, i):
    if i < leading_dense:
        g, u = linear(ffn_gate[i], h), linear(ffn_up[i], h)
        return linear(ffn_down[i], clamped_swiglu(g, u, shared_limits[i]))
    p = linear(ffn_gate_inp[i], h)
    p = softmax(p) if expert_gating == 1 else sigmoid(p)
    experts = top_k(p + exp_probs_b[i].bias if has(exp_probs_b[i].bias) else p, experts_used, groups=groups, used_groups=used_groups)
    g, u = expert_gate_up(h, experts, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i])
    weights = normalize(gather(p, experts)) if expert_norm else gather(p, experts)
    weights = weights * expert_scale if expert_scale != 0.0 else weights
    y = weighted_sum(expert_linear(ffn_down_exps[i], clamped_swiglu(g, u, limits[i]), experts), weights)
    g, u = linear(ffn_gate_shexp[i], h), linear(ffn_up_shexp[i], h)
    return y + linear(ffn_down_shexp[i], clamped_swiglu(g, u, shared_limits[i]))

def model():
    check_expert_groups()
    assert streams == 4 and streams_iterations > 0, "hyper_connection.count is not 4, or hyper_connection.sinkhorn_iterations is 0"
    assert has(context_length) and nextn_count < block_count, "context_length is missing, or nextn_predict_layers is not less than block_count"
    assert kda_head_length > 0 and conv_kernel > 0, "a size of linear attention is 0"
    assert heads > 0 and key_mla > 0 and value_mla > 0 and kv_rank > 0 and q_rank > 0 and rope_length == 0, "a number or a length of attention heads is 0, or rope.dimension_count is not 0"
    assert index_heads > 0 and index_length > 0 and pool_length >= 2 and index_top > 0 and index_top % pool_length == 0, "a number of the indexer is 0, or attention.indexer.kpool is less than 2 or does not divide attention.indexer.top_k"
    assert pool_tail, "attention.indexer.kpool_select_tail is false, so that the first tokens attend to nothing"
    assert not is_list(kinds_in_file) or len(kinds_in_file) >= trunk_count, "attention.indexer.types does not have one element for each layer"
    check_clamps()
    assert expert_gating <= 2 and (leading_dense >= trunk_count or experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0), "expert_gating_func is neither softmax nor sigmoid, expert_used_count is 0 or greater than the number of experts, or the width of an expert is 0"
    x = repeat(embed(token_embd, tokens), streams)
    picks = None
    for i in range(trunk_count):
        x, picks = layer(x, i, picks)
    a, b, c, d = split(merge_heads(x), embedding_length, embedding_length, embedding_length, embedding_length)
    return logits(linear(output, rms_norm((a + b + c + d) * 0.25, output_norm, rms_norm_epsilon)))

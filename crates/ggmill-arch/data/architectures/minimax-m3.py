"""MiniMax-M3: dense layers with attention, then layers with experts, in which an indexer selects the runs
of tokens that each KV head attends to."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = rms_norm(split_heads(linear(attn_q[i], h), heads), attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(split_heads(linear(attn_k[i], h), kv_heads), attn_k_norm[i], rms_norm_epsilon)
    v = split_heads(linear(attn_v[i], h), kv_heads)
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    if i < leading_dense:
        x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length)))
        h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
        return x + linear(ffn_down[i], swiglu_oai(linear(ffn_gate[i], h), linear(ffn_up[i], h)))
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), picks=selected(h, i, rope_params)))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, routed_norm, routed_scale, expert_gating)
    u = swiglu_oai(expert_linear(ffn_gate_exps[i], h, experts), expert_linear(ffn_up_exps[i], h, experts))
    y = weighted_sum(expert_linear(ffn_down_exps[i], u, experts), weights)
    return x + (y + linear(ffn_down_shexp[i], swiglu_oai(linear(ffn_gate_shexp[i], h), linear(ffn_up_shexp[i], h))))

def selected(h, i, rope_params):
    q = rms_norm(split_heads(linear(indexer.q_proj[i], h), index_heads), indexer.q_norm[i], rms_norm_epsilon)
    k = rms_norm(linear(indexer.k_proj[i], h), indexer.k_norm[i], rms_norm_epsilon)
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    return select_tokens(q, k, None, index_top, block=index_block, local=index_local)

def model():
    check_heads()
    check_rope()
    assert leading_dense >= block_count or experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"
    check_no_next_tokens()
    assert leading_dense >= block_count or expert_gating == 2, "expert_gating_func is not sigmoid"
    assert leading_dense >= block_count or first(expert_group_count, 0) <= 1, "experts are chosen from the best of several groups (expert_group_count)"
    assert leading_dense >= block_count or index_heads == kv_heads and index_length >= rope_length and index_top > 0 and index_block > 0, "the indexer does not have as many heads as there are KV heads, or a number of it is 0"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert i < leading_dense or has(indexer.q_proj[i]) and has(indexer.k_proj[i]) and has(indexer.q_norm[i]) and has(indexer.k_norm[i]), "a layer lacks tensors of its indexer"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""dots3: latent attention to a window in some layers, to the tokens that an indexer selects in the others;
each layer has its own number of heads; experts behind dense layers."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    x = x + linear(attn_output[i], latent_attention(h, i, rope_params))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < leading_dense:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, expert_norm, expert_scale, expert_gating, groups=groups, used_groups=used_groups)
    y = moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return x + (y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]))

def latent_attention(h, i, rope_params):
    heads = mla_heads[i]
    s = rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon)
    own = with_base(rope_params, local_base) if sliding[i] else rope_params
    q_plain, q_rope = split(split_heads(linear(attn_q_b[i], s), heads), mla_plain[i], rope_length)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), mla_rank[i], rope_length)
    c = rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)
    k_rope = rope_pairs(rms_norm(k_rope, attn_k_norm[i], rms_norm_epsilon), own)
    q = concat(head_linear(attn_k_b[i], q_plain), rope_pairs(q_rope, own))
    if sliding[i]:
        o = attention(q, concat(c, k_rope), c, 1 / sqrt(mla_key[i]), window=sliding_window)
    else:
        iq = rope_halves(split_heads(linear(indexer.attn_q_b[i], s), index_heads), rope_params)
        ik = layer_norm(linear(indexer.attn_k[i], h), indexer.k_norm[i], 0.000001)
        ik = rope_halves(ik, rope_params)
        o = attention(q, concat(c, k_rope), c, 1 / sqrt(mla_key[i]), picks=select_tokens(iq, ik, linear(indexer.proj[i], h), index_top))
    return merge_heads(head_linear(attn_v_b[i], split_heads(o, heads)) * split_heads(sigmoid(linear(attn_gate[i], h)), heads))

def model():
    check_rope()
    check_expert_groups()
    check_next_tokens()
    assert expert_gating == 2, "expert_gating_func is not sigmoid"
    assert leading_dense >= trunk_count or experts_used > 0 and experts_used <= expert_count and expert_length > 0 and shared_length > 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"
    assert first(local_base, 0.0) > 0.0 and sliding_window > 0, "rope.freq_base_swa is missing or not positive, or attention.sliding_window is 0"
    assert len(window_pattern) >= trunk_count and (not is_list(mla_heads) or len(mla_heads) >= trunk_count), "attention.sliding_window_pattern or attention.head_count does not have one element for each layer"
    assert q_rank > 0 and index_heads > 0 and index_length >= rope_length and index_top > 0, "a number of the indexer or attention.q_lora_rank is 0, or rope.dimension_count is greater than the length of the indexer's heads"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        assert sliding[i] or has(indexer.attn_k[i]) and has(indexer.attn_q_b[i]) and has(indexer.k_norm[i]) and has(indexer.proj[i]), "a layer lacks tensors of its indexer"
        assert mla_heads[i] > 0 and mla_rank[i] > 0 and mla_value[i] > 0 and mla_plain[i] >= 1, "a number or a length of attention heads is 0, or rope.dimension_count is not less than the length of a key"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

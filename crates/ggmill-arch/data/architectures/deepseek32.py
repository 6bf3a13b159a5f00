"""DeepSeek V3.2: latent attention to the tokens that an indexer selects (sparse attention), and experts
with a shared expert behind dense layers."""

from deepseek2 import mla_angles, mla_score_scale

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    s = rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon)
    picks = selected(h, s, i, rope_params)
    x = x + linear(attn_output[i], latent_attention(h, s, i, rope_params, picks))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < leading_dense:
        x = x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    else:
        experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, expert_norm, expert_scale, gating, groups=groups, used_groups=used_groups)
        x = x + moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return x + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if i >= leading_dense and shared_length > 0 else x

def selected(h, s, i, rope_params):
    """The tokens that the indexer selects: a small attention of its own, of which only the scores count."""
    q = rope(split_heads(linear(indexer.attn_q_b[i], s), index_heads), index_style, rope_length, rope_params[0], scale=rope_params[1], magnitude=rope_params[2], yarn=rope_params[3])
    k = layer_norm(linear(indexer.attn_k[i], h), indexer.k_norm[i], index_epsilon)
    k = rope(k, index_style, rope_length, rope_params[0], scale=rope_params[1], magnitude=rope_params[2], yarn=rope_params[3])
    return select_tokens(q, k, linear(indexer.proj[i], h), index_top)

def latent_attention(h, s, i, rope_params, picks):
    q_plain, q_rope = split(split_heads(linear(attn_q_b[i], s), heads), plain_length, rope_length)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), kv_rank, rope_length)
    c = rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)
    k_rope = rope_pairs(k_rope, rope_params)
    q_rope = rope_pairs(q_rope, rope_params)
    q = concat(head_linear(attn_k_b[i], q_plain), q_rope)
    o = attention(q, concat(c, k_rope), c, mla_score_scale(), picks=picks)
    return merge_heads(head_linear(attn_v_b[i], split_heads(o, heads)))

def check_sparse_latent():
    assert heads > 0 and value_mla > 0 and kv_rank > 0 and q_rank > 0 and plain_length >= 1, "a number or a length of attention heads is 0, or rope.dimension_count is not less than the length of a key"
    assert index_heads > 0 and index_length >= rope_length and index_top > 0, "a number of the indexer is 0, or rope.dimension_count is greater than the length of its heads"
    assert trunk_count > 0, "there are no layers"

def model():
    check_rope()
    check_expert_groups()
    check_next_tokens()
    check_sparse_latent()
    assert expert_length > 0 or leading_dense >= trunk_count, "the width of an expert is 0"
    assert leading_dense >= trunk_count or experts_used > 0 and experts_used <= expert_count, "expert_used_count is 0, or greater than the number of experts"
    assert gating == 1 or gating == 2, "expert_gating_func is neither softmax nor sigmoid"
    rope_params = mla_angles()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        assert has(indexer.attn_k[i]) and has(indexer.attn_q_b[i]) and has(indexer.k_norm[i]) and has(indexer.proj[i]), "a layer lacks tensors of its indexer"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

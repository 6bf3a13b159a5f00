"""GLM 5: DeepSeek V3.2 in which only some layers have an indexer. The others attend to the tokens that
the last one selected."""

from deepseek32 import check_sparse_latent, latent_attention, selected
from deepseek2 import mla_angles

def layer(x, i, rope_params, picks):
    """The new x, and the tokens that this and the next layers attend to."""
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    s = rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon)
    picks = selected(h, s, i, rope_params) if indexed[i] else picks
    x = x + linear(attn_output[i], latent_attention(h, s, i, rope_params, picks))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < leading_dense:
        x = x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    else:
        experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, expert_norm, expert_scale, gating, groups=groups, used_groups=used_groups)
        x = x + moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return x + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if i >= leading_dense and shared_length > 0 else x, picks

def model():
    check_rope()
    check_expert_groups()
    check_next_tokens()
    check_sparse_latent()
    assert indexed[0], "the first layer has no indexer"
    assert expert_length > 0 or leading_dense >= trunk_count, "the width of an expert is 0"
    assert leading_dense >= trunk_count or experts_used > 0 and experts_used <= expert_count, "expert_used_count is 0, or greater than the number of experts"
    assert gating == 1 or gating == 2, "expert_gating_func is neither softmax nor sigmoid"
    assert not is_list(kinds_in_file) or len(kinds_in_file) >= trunk_count, "attention.indexer.types does not have one element for each layer"
    rope_params = mla_angles()
    x = embed(token_embd, tokens)
    picks = None
    for i in range(trunk_count):
        assert not indexed[i] or has(indexer.attn_k[i]) and has(indexer.attn_q_b[i]) and has(indexer.k_norm[i]) and has(indexer.proj[i]), "a layer lacks tensors of its indexer"
        x, picks = layer(x, i, rope_params, picks)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

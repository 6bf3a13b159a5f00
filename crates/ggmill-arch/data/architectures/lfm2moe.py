"""LFM2 MoE: LFM2 with experts behind the first layers."""

from lfm2 import mixed

def layer(x, i, rope_params):
    x = x + mixed(rms_norm(x, attn_norm[i], rms_norm_epsilon), i, rope_params)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < dense_blocks:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    p = sigmoid(linear(ffn_gate_inp[i], h))
    experts = top_k(p + exp_probs_b[i].bias, experts_used)
    weights = normalize(gather(p, experts))
    weights = weights * expert_scale if expert_scale != 0.0 else weights
    return x + weighted_sum(expert_swiglu(h, experts, ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i]), weights)

def model():
    check_rope()
    assert heads > 0 and key_length > 0 and value_length > 0 and kernel > 0 and causal, "a number or a length of attention heads, or the length of the convolution, is 0, or the model is not causal"
    assert expert_gating == 2, "expert_gating_func is not sigmoid"
    assert expert_length > 0 and experts_used > 0, "the width of an expert, or the number of experts used, is 0"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert block_kv_heads[i] == 0 or heads % block_kv_heads[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, token_embd_norm, rms_norm_epsilon)))

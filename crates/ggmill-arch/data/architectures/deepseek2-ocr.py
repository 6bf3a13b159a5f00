"""The language model of DeepSeek OCR: experts and a shared expert behind dense layers."""

def layer(x, i, base):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = rope(split_heads(linear(attn_q[i], h), heads), "halves", key_length, base)
    k = rope(split_heads(linear(attn_k[i], h), kv_heads), "halves", key_length, base)
    x = x + linear(attn_output[i], attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length)))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    if i < leading_dense:
        return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    experts, weights = moe_router(h, ffn_gate_inp[i], exp_probs_b[i].bias, expert_norm, expert_scale, expert_gating, groups=groups, used_groups=used_groups)
    x = x + moe_swiglu(h, experts, weights, ffn_gate_up_exps[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return x + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if has(ffn_gate_shexp[i]) else x

def model():
    check_heads()
    check_expert_groups()
    assert leading_dense >= trunk_count or expert_length > 0 and experts_used > 0 and experts_used <= expert_count, "the width or the number of experts that a token uses is 0, or there are fewer experts"
    check_next_tokens()
    assert expert_gating <= 2, "expert_gating_func is neither softmax nor sigmoid"
    base = first(rope_freq_base, 10000.0)
    assert key_length % 2 == 0 and base > 0.0, "the length of an attention head is odd, or rope.freq_base is not positive"
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, base)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

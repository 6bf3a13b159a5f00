"""Granite 4: Mamba 2 in most layers, attention in the others; experts in some models."""

from granite import embedding_factor, logit_divisor, residual_factor, score_scale

def layer(x, i, rope_params, factors):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    if mamba_blocks[i]:
        y = mamba2(h, ssm_in[i], ssm_conv1d[i], ssm_dt[i], ssm_a[i], ssm_d[i], ssm_norm[i], ssm_out[i])
    else:
        y = attend(h, i, rope_params, factors)
    x = x + y * residual_factor()
    return x + feed_forward_layer(rms_norm(x, ffn_norm[i], rms_norm_epsilon), i) * residual_factor()

def attend(h, i, rope_params, factors):
    q = split_heads(linear(attn_q[i], h), heads)
    k = split_heads(linear(attn_k[i], h), block_kv_heads[i])
    v = split_heads(linear(attn_v[i], h), block_kv_heads[i])
    q = rope_pairs(q, rope_params, factors=factors) if turned else q
    k = rope_pairs(k, rope_params, factors=factors) if turned else k
    return linear(attn_output[i], attention(q, k, v, score_scale()))

def feed_forward_layer(h, i):
    if expert_count == 0:
        return swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    y = softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    return y + swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i]) if shared_length > 0 else y

def model():
    check_rope()
    assert expert_count == 0 or experts_used > 0 and experts_used <= expert_count, "expert_used_count is 0, or greater than the number of experts"
    check_mamba2()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * embedding_factor()
    for i in range(trunk_count):
        assert mamba_blocks[i] or heads > 0 and heads % block_kv_heads[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i, rope_params, optional(rope_freqs))
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)) / logit_divisor())

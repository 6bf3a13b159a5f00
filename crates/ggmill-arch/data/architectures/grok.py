"""Grok: experts with GELU in every layer, soft caps, normalization before and after each layer. In Grok 2
a dense layer stands beside the experts."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = project_qkv(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, kv_heads), rope_params)
    o = attention(q, k, split_heads(v, kv_heads), output_scale, causal=causal, softcap=attention_limit)
    x = x + rms_norm(linear(attn_output[i], o), attn_output_norm[i], rms_norm_epsilon)
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    u = gelu(expert_linear(ffn_gate_exps[i], h, experts)) * expert_linear(ffn_up_exps[i], h, experts)
    y = weighted_sum(expert_linear(ffn_down_exps[i], u, experts), normalize(gather(p, experts)))
    if has(ffn_up[i]):
        y = (y + geglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])) * sqrt(0.5)
    return x + rms_norm(y, layer_output_norm[i] if has(layer_output_norm[i]) else post_ffw_norm[i], rms_norm_epsilon)

def model():
    check_heads()
    check_rope()
    check_experts()
    assert attention_limit != 0.0, "attn_logit_softcapping is 0"
    assert rope_scaling != "yarn" or has(rope_beta_fast), "rope.scaling.yarn_beta_fast is missing"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    x = x * (embedding_scale if embedding_scale != 0.0 else 1.0)
    for i in range(block_count):
        assert not has(ffn_up[i]) or has(ffn_gate[i]) and has(ffn_down[i]), "a tensor of the feed-forward layer beside the experts is missing"
        assert has(layer_output_norm[i]) or has(post_ffw_norm[i]), "a block has neither layer_output_norm nor post_ffw_norm"
        x = layer(x, i, rope_params)
    y = linear(output, rms_norm(x, output_norm, rms_norm_epsilon)) * logit_scale
    return logits(softcap(y, final_limit) if final_limit != 0.0 else y)

"""Kimi K3: the input of each layer is a mixture of the outputs of earlier groups of layers, weighted by
attention over them; linear attention (Kimi Delta Attention) in most layers, gated latent attention without
positions in the others; experts behind dense layers, with the activation SiTU."""

from kimi_linear import check_kda, expert_groups, short_conv_heads, unit_heads

def layer(x, kept, i):
    """The new x, and the outputs of groups of layers, one after the other."""
    if i == 0:
        h, kept = x, x
    else:
        h = mixed(split_heads(concat(kept, x), (i + residual_block - 1) // residual_block + 1), attn_res_score[i])
        kept = concat(kept, x) if i % residual_block == 0 else kept
    h = rms_norm(h, attn_norm[i], rms_norm_epsilon)
    y = delta_attention(h, i) if kda[i] else latent_attention(h, i)
    # A group begins anew, without what was before.
    x = linear(attn_output[i], y) if i % residual_block == 0 else x + linear(attn_output[i], y)
    h = mixed(split_heads(concat(kept, x), i // residual_block + 2), ffn_res_score[i])
    return feed_forward_layer(x, rms_norm(h, ffn_norm[i], rms_norm_epsilon), i), kept

def mixed(outputs, score):
    """The sum of outputs, weighted by a softmax over their scores."""
    return weighted_sum(outputs, softmax(merge_heads(sum(rms_norm(outputs, None, rms_norm_epsilon) * score))))

def delta_attention(h, i):
    q = short_conv_heads(h, attn_q[i], ssm_conv1d_q[i], kda_heads)
    k = short_conv_heads(h, attn_k[i], ssm_conv1d_k[i], kda_heads)
    v = short_conv_heads(h, attn_v[i], ssm_conv1d_v[i], kda_heads)
    q, k = unit_heads(q, k, kda_head_length, rms_norm_epsilon)
    beta = sigmoid(split_heads(linear(ssm_beta[i], h), kda_heads))
    decay = split_heads(linear(ssm_f_b[i], linear(ssm_f_a[i], h)) + ssm_dt[i].bias, kda_heads)
    if has(gate_bound):
        decay = exp(sigmoid(-(decay * ssm_a[i])) * gate_bound)
    else:
        decay = exp(softplus(decay) * ssm_a[i])
    y = merge_heads(rms_norm(delta_rule(q, k, v, beta, decay), ssm_norm[i], rms_norm_epsilon))
    return y * sigmoid(linear(ssm_g[i], h))

def latent_attention(h, i):
    if q_rank > 0:
        q = linear(attn_q_b[i], rms_norm(linear(attn_q_a[i], h), attn_q_a_norm[i], rms_norm_epsilon))
    else:
        q = linear(attn_q[i], h)
    q_plain, q_rope = split(split_heads(q, heads), plain_length, rope_length)
    c, k_rope = split(linear(attn_kv_a_mqa[i], h), kv_rank, rope_length)
    c = rms_norm(c, attn_kv_a_norm[i], rms_norm_epsilon)
    q = concat(head_linear(attn_k_b[i], q_plain), q_rope)
    o = split_heads(attention(q, concat(c, k_rope), c, 1 / sqrt(key_mla)), heads)
    return merge_heads(head_linear(attn_v_b[i], o)) * sigmoid(linear(attn_gate[i], h))

def limited(u):
    return softcap(u, situ_linear_beta) if situ_linear_beta > 0.0 else u

def situ(g):
    """SiTU: SiLU with a soft limit."""
    return softcap(g, situ_beta) * sigmoid(g)

def feed_forward_layer(x, h, i):
    if i < leading_dense:
        g, u = linear(ffn_gate[i], h), limited(linear(ffn_up[i], h))
        return x + linear(ffn_down[i], situ(g) * u)
    p = linear(ffn_gate_inp[i], h)
    p = sigmoid(p) if expert_gating == 2 else softmax(p)
    experts = top_k(p + exp_probs_b[i].bias, experts_used, groups=expert_groups(), used_groups=first(expert_group_used_count, 0))
    weights = gather(p, experts)
    weights = normalize(weights) if expert_norm else weights
    weights = weights * expert_scale if expert_scale != 0.0 else weights
    # Experts may work in a smaller space.
    e = linear(ffn_routed_down[i], h) if has(ffn_routed_down[i]) else h
    g, u = expert_linear(ffn_gate_exps[i], e, experts), limited(expert_linear(ffn_up_exps[i], e, experts))
    y = weighted_sum(expert_linear(ffn_down_exps[i], situ(g) * u, experts), weights)
    y = rms_norm(y, ffn_routed_norm[i], rms_norm_epsilon) if has(ffn_routed_norm[i]) else y
    y = linear(ffn_routed_up[i], y) if has(ffn_routed_up[i]) else y
    g, u = linear(ffn_gate_shexp[i], h), limited(linear(ffn_up_shexp[i], h))
    return x + y + linear(ffn_down_shexp[i], situ(g) * u)

def model():
    check_kda()
    assert residual_block > 0 and situ_beta > 0.0 and trunk_count > 0, "attn_res.block_size is 0, or activation.situ_beta is not positive, or all blocks predict further tokens"
    x = embed(token_embd, tokens)
    kept = None
    for i in range(trunk_count):
        x, kept = layer(x, kept, i)
    x = mixed(split_heads(concat(kept, x), (trunk_count + residual_block - 1) // residual_block + 1), output_res_score)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""Nemotron-H MoE: each layer is Mamba 2, attention without positions, or experts with a squared ReLU."""

from nemotron_h import attend

def layer(x, i):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    y = None
    if mamba_blocks[i]:
        y = mamba2(h, ssm_in[i], ssm_conv1d[i], ssm_dt[i], ssm_a[i], ssm_d[i], ssm_norm[i], ssm_out[i])
    if attention_here[i]:
        y = attend(h, i)
    if expert_blocks[i]:
        y = moe(h, i)
    return x + y

def moe(h, i):
    p = sigmoid(linear(ffn_gate_inp[i], h))
    experts = top_k(p + exp_probs_b[i].bias, expert_used_count[i], groups=groups, used_groups=used_groups)
    weights = gather(p, experts)
    weights = normalize(weights) if normalized else weights
    weights = weights * weights_scale if weights_scale != 0.0 else weights
    # Experts may work in a smaller space.
    u = relu(expert_linear(ffn_up_exps[i], linear(ffn_latent_down[i], h) if has(ffn_latent_down[i]) else h, experts))
    y = weighted_sum(expert_linear(ffn_down_exps[i], u * u, experts), weights)
    u = relu(linear(ffn_up_shexp[i], h))
    return (linear(ffn_latent_up[i], y) if has(ffn_latent_up[i]) else y) + linear(ffn_down_shexp[i], u * u)

def model():
    check_mamba2()
    check_expert_groups()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        assert not attention_here[i] or heads > 0 and heads % block_kv_heads[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        assert not expert_blocks[i] or expert_used_count[i] > 0 and expert_used_count[i] <= expert_count, "expert_used_count is 0, or greater than the number of experts"
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

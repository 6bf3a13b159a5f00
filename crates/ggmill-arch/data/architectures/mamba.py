"""Mamba: a state space model whose time steps, inputs and outputs depend on the token."""

def layer(x, i):
    u, z = split(linear(ssm_in[i], rms_norm(x, attn_norm[i], norm_epsilon)), inner_size, inner_size)
    u = silu(causal_conv(ssm_conv1d[i], u))
    dt, b, c = split(linear(ssm_x[i], u), time_step_rank, state_size, state_size)
    if normalized_states:
        dt = rms_norm(dt, None, norm_epsilon)
        b = rms_norm(b, None, norm_epsilon)
        c = rms_norm(c, None, norm_epsilon)
    dt = split_heads(softplus(linear(ssm_dt[i], dt)), inner_size)
    y = linear_recurrence(c, b, split_heads(u, inner_size) * dt, dt, rates=ssm_a[i])
    return x + linear(ssm_out[i], (merge_heads(y) + u * ssm_d[i]) * silu(z))

def model():
    assert inner_size > 0 and state_size > 0 and time_step_rank > 0 and conv_kernel > 0, "a size of the state is 0"
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, norm_epsilon)))

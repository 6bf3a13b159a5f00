"""Mamba 2: a state space model with heads, each of which decays as a whole."""

def layer(x, i):
    h = rms_norm(x, attn_norm[i], norm_epsilon)
    return x + mamba2(h, ssm_in[i], ssm_conv1d[i], ssm_dt[i], ssm_a[i], ssm_d[i], ssm_norm[i], ssm_out[i], norm_epsilon, inner_size, state_size, time_step_rank, group_count, conv_length)

def model():
    assert inner_size > 0 and state_size > 0 and time_step_rank > 0 and group_count > 0 and conv_kernel > 0, "a size of the state is 0"
    assert inner_size % time_step_rank == 0 and inner_size % group_count == 0 and time_step_rank % group_count == 0, "the heads do not divide the state, or the groups do not divide the heads"
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, norm_epsilon)))

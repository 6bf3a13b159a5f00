"""Falcon-H1: attention and Mamba 2 side by side in every layer."""

def layer(x, i):
    h = rms_norm(x, attn_norm[i], norm_epsilon)
    q = rope(split_heads(linear(attn_q[i], h), heads), "halves", rope_length, rope_freq_base)
    k = rope(split_heads(linear(attn_k[i], h), kv_heads), "halves", rope_length, rope_freq_base)
    o = linear(attn_output[i], attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(head_length)))
    z, u, dt = split(linear(ssm_in[i], h), inner_size, conv_length, time_step_rank)
    y = mamba2_scan(u, dt, ssm_conv1d[i], ssm_dt[i].bias, ssm_a[i], ssm_d[i], inner_size, state_size, time_step_rank, group_count)
    y = merge_heads(y) * silu(z)
    y = merge_heads(rms_norm(split_heads(y, group_count), ssm_norm[i], norm_epsilon)) if has(ssm_norm[i]) else y
    x = o + linear(ssm_out[i], y) + x
    h = rms_norm(x, ffn_norm[i], norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    assert heads > 0 and kv_heads > 0 and head_length > 0, "a number or a length of attention heads is 0"
    assert heads % kv_heads == 0, "the number of attention heads is not a multiple of the number of KV heads"
    assert rope_length > 0 and rope_length % 2 == 0 and rope_length <= head_length and rope_freq_base > 0.0, "rope.dimension_count is odd, 0, or greater than the length of an attention head, or rope.freq_base is not positive"
    assert inner_size > 0 and state_size > 0 and time_step_rank > 0 and group_count > 0 and conv_kernel > 0, "a size of the state is 0"
    assert inner_size % time_step_rank == 0 and inner_size % group_count == 0 and time_step_rank % group_count == 0, "the heads do not divide the state, or the groups do not divide the heads"
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, norm_epsilon)))

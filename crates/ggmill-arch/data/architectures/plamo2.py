"""PLaMo 2: Mamba in every second layer, attention in the others; normalization before and after each layer."""

def layer(x, i):
    h = rms_norm(x, attn_norm[i], norm_epsilon)
    y = mamba(h, i) if head_count_kv[i] == 0 else attend(h, i)
    x = x + rms_norm(y, post_attention_norm[i], norm_epsilon)
    return x + rms_norm(fused_swiglu(rms_norm(x, ffn_norm[i], norm_epsilon), ffn_up[i], ffn_down[i]), post_ffw_norm[i], norm_epsilon)

def mamba(h, i):
    heads = time_step_rank
    z, u = split(split_heads(linear(ssm_in[i], h), heads), inner_size / heads, inner_size / heads)
    u = silu(causal_conv(ssm_conv1d[i], merge_heads(u)))
    b, c, dt = split(linear(ssm_x[i], u), state_size, state_size, time_step_length)
    b, c = rms_norm(b, ssm_b_norm[i], norm_epsilon), rms_norm(c, ssm_c_norm[i], norm_epsilon)
    dt = softplus(split_heads(linear(ssm_dt[i], rms_norm(dt, ssm_dt_norm[i], norm_epsilon)), heads))
    v = split_heads(u, heads)
    # dt - dt + ssm_d: one number for each head.
    y = linear_recurrence(c, b, v * dt, exp(dt * ssm_a[i])) + v * (dt - dt + ssm_d[i])
    return linear(ssm_out[i], merge_heads(y * silu(z)))

def attend(h, i):
    heads, kv_heads = head_count[i], head_count_kv[i]
    q, k, v = split(linear(attn_qkv[i], h), heads * head_length, kv_heads * head_length, kv_heads * head_length)
    q = rms_norm(split_heads(q, heads), attn_q_norm[i], norm_epsilon)
    k = rms_norm(split_heads(k, kv_heads), attn_k_norm[i], norm_epsilon)
    q = rope(q, "halves", head_length, rope_freq_base)
    k = rope(k, "halves", head_length, rope_freq_base)
    return linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(head_length)))

def model():
    assert inner_size > 0 and state_size > 0 and time_step_rank > 0 and conv_kernel > 0 and head_length > 0, "a size of the state, or the length of an attention head, is 0"
    assert inner_size % time_step_rank == 0, "the heads do not divide the state"
    assert head_length % 2 == 0 and rope_freq_base > 0.0, "the length of an attention head is odd, or rope.freq_base is not positive"
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert head_count_kv[i] == 0 or head_count[i] > 0 and head_count[i] % head_count_kv[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, norm_epsilon)))

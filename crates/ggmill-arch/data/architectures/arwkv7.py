"""ARWKV 7: Qwen 2 with the linear attention of RWKV 7 in place of attention."""

def layer(x, i, first_v):
    """The new x, and the values of the first layer, which all others mix with theirs."""
    y, first_v = time_mix(rms_norm(x, attn_norm[i], norm_epsilon), i, first_v)
    x = x + linear(time_mix_output[i], y)
    h = rms_norm(x, ffn_norm[i], norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i]), first_v

def time_mix(h, i, first_v):
    heads = embedding_length // head_size
    m = merge_heads(repeat(shift(h) - h, lerps) * time_mix_lerp_fused[i] + repeat(h, lerps))
    gate = None
    if lerps == 6:
        r, w, k, v, a, gate = split(m, embedding_length, embedding_length, embedding_length, embedding_length, embedding_length, embedding_length)
    else:
        r, w, k, v, a = split(m, embedding_length, embedding_length, embedding_length, embedding_length, embedding_length)
    r = split_heads(linear(time_mix_receptance[i], r), heads)
    w = linear(time_mix_w2[i], tanh(linear(time_mix_w1[i], w))) + time_mix_w0[i]
    decay = exp(split_heads(sigmoid(w) * -0.606531, heads))
    k = linear(time_mix_key[i], k)
    s = linear(time_mix_v2[i], linear(time_mix_v1[i], v)) + time_mix_v0[i]
    v = linear(time_mix_value[i], v)
    a = sigmoid(linear(time_mix_a2[i], linear(time_mix_a1[i], a)) + time_mix_a0[i])
    if i == 0:
        first_v = v
    else:
        v = v + (first_v - v) * sigmoid(s)
    n = l2_norm(split_heads(k * time_mix_k_k[i], heads), 1e-12)
    s = k * time_mix_k_a[i]
    k = split_heads(k + (a * s - s), heads)
    v = split_heads(v, heads)
    # The state forgets what it has at n, as far as a says.
    y = linear_recurrence(r, k, v, decay, read=-n, write=n * split_heads(a, heads))
    y = layer_norm(y, time_mix_ln[i], 0.00064) if has(time_mix_ln[i].weight) and has(time_mix_ln[i].bias) else y
    y = merge_heads(y + v * sum(k * r * time_mix_r_k[i]))
    if gate is not None and has(time_mix_g1[i]) and has(time_mix_g2[i]):
        y = y * linear(time_mix_g2[i], sigmoid(linear(time_mix_g1[i], gate)))
    return y, first_v

def model():
    assert head_size > 0 and embedding_length % head_size == 0 and decay_rank > 0 and iclr_rank > 0 and value_rank > 0, "wkv.head_size does not divide embedding_length, or the rank of a matrix is 0"
    x = embed(token_embd, tokens)
    first_v = None
    for i in range(block_count):
        x, first_v = layer(x, i, first_v)
    return logits(linear(output, rms_norm(x, output_norm, norm_epsilon)))

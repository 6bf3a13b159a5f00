"""RWKV 7: linear attention with a generalized delta rule, and a squared ReLU; both look at mixtures of the
token and the one before."""

def layer(x, i, first_v):
    """The new x, and the values of the first layer, which all others mix with theirs."""
    y, first_v = time_mix(layer_norm(x, attn_norm[i], norm_epsilon), i, first_v)
    x = x + linear(time_mix_output[i], y)
    h = layer_norm(x, attn_norm_2[i], norm_epsilon)
    k = relu(linear(channel_mix_key[i], (shift(h) - h) * channel_mix_lerp_k[i] + h))
    return x + linear(channel_mix_value[i], k * k), first_v

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
    x = layer_norm(embed(token_embd, tokens), token_embd_norm, norm_epsilon)
    first_v = None
    for i in range(block_count):
        x, first_v = layer(x, i, first_v)
    return logits(linear(output, layer_norm(x, output_norm, norm_epsilon)))

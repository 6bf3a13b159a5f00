"""RWKV 6: linear attention whose decay depends on the token, and a squared ReLU with a gate; both look at
mixtures of the token and the one before, which also depend on the token."""

def layer(x, i):
    heads = embedding_length // head_size
    h = layer_norm(x, attn_norm[i], norm_epsilon)
    s = shift(h) - h
    m = head_linear(time_mix_w2[i], split_heads(tanh(linear(time_mix_w1[i], s * time_mix_lerp_x[i] + h)), 5))
    if has(time_mix_lerp_fused[i]):
        m = merge_heads((m + time_mix_lerp_fused[i]) * repeat(s, 5) + repeat(h, 5))
        w, k, v, r, g = split(m, embedding_length, embedding_length, embedding_length, embedding_length, embedding_length)
    else:
        w, k, v, r, g = split(merge_heads(m), embedding_length, embedding_length, embedding_length, embedding_length, embedding_length)
        w = (w + time_mix_lerp_w[i]) * s + h
        k = (k + time_mix_lerp_k[i]) * s + h
        v = (v + time_mix_lerp_v[i]) * s + h
        r = (r + time_mix_lerp_r[i]) * s + h
        g = (g + time_mix_lerp_g[i]) * s + h
    r = split_heads(linear(time_mix_receptance[i], r), heads)
    k = split_heads(linear(time_mix_key[i], k), heads)
    v = split_heads(linear(time_mix_value[i], v), heads)
    g = linear(time_mix_gate[i], g)
    w = linear(time_mix_decay_w2[i], tanh(linear(time_mix_decay_w1[i], w))) + time_mix_decay[i]
    w = split_heads(exp(-exp(w)), heads)
    y = linear_recurrence(r, k, v, w, before=True) + v * sum(k * time_mix_first[i] * r)
    x = x + linear(time_mix_output[i], merge_heads(layer_norm(y, time_mix_ln[i], 0.00064)) * silu(g))
    h = layer_norm(x, attn_norm_2[i], norm_epsilon)
    s = shift(h) - h
    k = relu(linear(channel_mix_key[i], s * channel_mix_lerp_k[i] + h))
    x = x + sigmoid(linear(channel_mix_receptance[i], s * channel_mix_lerp_r[i] + h)) * linear(channel_mix_value[i], k * k)
    return x * 0.5 if rescale > 0 and (i + 1) % max(rescale, 1) == 0 else x

def model():
    assert head_size > 0 and embedding_length % head_size == 0 and time_mix_extra > 0 and time_decay_extra > 0, "wkv.head_size does not divide embedding_length, or the rank of a matrix is 0"
    x = layer_norm(embed(token_embd, tokens), token_embd_norm, norm_epsilon)
    for i in range(block_count):
        assert has(time_mix_lerp_fused[i]) or has(time_mix_lerp_w[i]) and has(time_mix_lerp_k[i]) and has(time_mix_lerp_v[i]) and has(time_mix_lerp_r[i]) and has(time_mix_lerp_g[i]), "a tensor of the interpolations (time_mix_lerp) is missing"
        x = layer(x, i)
    return logits(linear(output, layer_norm(x, output_norm, norm_epsilon)))

"""QRWKV 6: Qwen 2 with the linear attention of RWKV 6 in place of attention."""

def layer(x, i):
    heads = embedding_length // head_size
    h = rms_norm(x, attn_norm[i], norm_epsilon)
    s = shift(h) - h
    m = head_linear(time_mix_w2[i], split_heads(tanh(linear(time_mix_w1[i], s * time_mix_lerp_x[i] + h)), 5))
    m = merge_heads((m + time_mix_lerp_fused[i]) * repeat(s, 5) + repeat(h, 5))
    w, k, v, r, g = split(m, embedding_length, embedding_length, embedding_length, embedding_length, embedding_length)
    r = split_heads(linear(time_mix_receptance[i], r), heads)
    k = repeat(split_heads(linear(time_mix_key[i], k), head_count_kv), heads // head_count_kv, each=True)
    v = repeat(split_heads(linear(time_mix_value[i], v), head_count_kv), heads // head_count_kv, each=True)
    g = linear(time_mix_gate[i], g)
    w = linear(time_mix_decay_w2[i], tanh(linear(time_mix_decay_w1[i], w))) + time_mix_decay[i]
    w = split_heads(exp(-exp(w)), heads)
    y = linear_recurrence(r / sqrt(head_size), k - k * w, v, w)
    x = x + linear(time_mix_output[i], merge_heads(y) * sigmoid(g))
    h = rms_norm(x, ffn_norm[i], norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    assert head_size > 0 and embedding_length % head_size == 0 and time_mix_extra > 0 and time_decay_extra > 0, "wkv.head_size does not divide embedding_length, or the rank of a matrix is 0"
    assert head_count_kv > 0 and embedding_length // max(head_size, 1) % max(head_count_kv, 1) == 0, "the number of heads is not a multiple of the number of KV heads"
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i)
    x = rms_norm(x, None, norm_epsilon) * output_norm
    return logits(linear(output, x + output_norm.bias if has(output_norm.bias) else x))

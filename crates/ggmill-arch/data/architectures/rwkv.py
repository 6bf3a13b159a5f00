"""RWKV 4: a weighted mean of values that decays by the channel, and a squared ReLU with a gate; both look
at mixtures of the token and the one before."""

def between(h, s, weight):
    """h times the weight, plus 1 minus the weight times that of the token before; s is the difference."""
    return h + (s - s * weight)

def layer(x, i):
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    s = shift(h) - h
    k = exp(linear(time_mix_key[i], between(h, s, time_mix_lerp_k[i])))
    v = linear(time_mix_value[i], between(h, s, time_mix_lerp_v[i]))
    r = sigmoid(linear(time_mix_receptance[i], between(h, s, time_mix_lerp_r[i])))
    # Each channel is a head of one number.
    one = split_heads(k * 0 + 1, embedding_length)
    decay = exp(-exp(k * 0 + time_mix_decay[i]))
    decay = split_heads(decay, embedding_length)
    now = split_heads(k * exp(k * 0 + time_mix_first[i]), embedding_length)
    k = split_heads(k, embedding_length)
    v = split_heads(v, embedding_length)
    n = linear_recurrence(one, k, v, decay, before=True) + now * v
    d = linear_recurrence(one, k, one, decay, before=True) + now
    x = x + linear(time_mix_output[i], r * merge_heads(n / d))
    h = layer_norm(x, attn_norm_2[i], layer_norm_epsilon)
    s = shift(h) - h
    g = sigmoid(linear(channel_mix_receptance[i], between(h, s, channel_mix_lerp_r[i])))
    u = relu(linear(channel_mix_key[i], between(h, s, channel_mix_lerp_k[i])))
    return x + g * linear(channel_mix_value[i], u * u)

def model():
    assert has(layer_norm_epsilon), "attention.layer_norm_epsilon is missing"
    x = layer_norm(embed(token_embd, tokens), token_embd_norm, layer_norm_epsilon)
    for i in range(block_count):
        x = layer(x, i)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

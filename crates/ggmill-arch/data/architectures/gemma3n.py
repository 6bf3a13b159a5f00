"""Gemma 3n: four streams (AltUp), of which each layer predicts all, computes the first, and corrects all
by the difference; a shortcut of low rank beside attention (Laurel); sparse feed-forward layers at the
beginning; an embedding of the token in each layer; keys and values that later layers share."""

def split_streams(x):
    """The active stream, and the other three."""
    return split(merge_heads(x), embedding_length, 3 * embedding_length)

def with_norm_of(x, y):
    """x, scaled to the length of y."""
    return l2_norm(x, 1e-12) * sum(y * l2_norm(y, 1e-12))

def modalities(x, i):
    """The output of the router for one vector, from which the coefficients of the streams are computed."""
    return tanh(linear(altup_router[i], rms_norm(x, altup_router_norm[i], rms_norm_epsilon) / embedding_length))

def predict(x, i):
    """Each stream plus a mixture of all, with coefficients that depend on the active stream, which is the first."""
    active, others = split_streams(x)
    a, b, c, d = split(linear(altup_predict_coef[i], modalities(active, i)), 4, 4, 4, 4)
    return split_heads(concat(concat(weighted_sum(x, a), weighted_sum(x, b)), concat(weighted_sum(x, c), weighted_sum(x, d))), 4) + x

def correct(predicted, active, computed, i):
    """Adds (coefficient + 1) times the difference between the computed and the predicted active stream to each stream."""
    m = modalities(computed, i)
    return repeat(computed - active, 4) * split_heads(linear(altup_correct_coef[i], m) + 1.0, 4) + predicted

def layer(x, i, rope_params, shared, rest):
    """The new streams, the keys and values that later layers share (of windowed layers, and of others), and
    the inputs of later layers."""
    windowed = is_windowed(i, 5)
    x = predict(x, i)
    active, others = split_streams(x)
    h = rms_norm(active, attn_norm[i], rms_norm_epsilon)
    o, shared = attend(h, i, windowed, unscaled(rope_params, local_base) if windowed else rope_params, shared)
    laurel = rms_norm(linear(laurel_r[i], linear(laurel_l[i], h)), laurel_post_norm[i], rms_norm_epsilon) + h
    r = (rms_norm(linear(attn_output[i], o), post_attention_norm[i], rms_norm_epsilon) + active + laurel) * sqrt(0.5)
    y = feed_forward_layer(rms_norm(r, ffn_norm[i], rms_norm_epsilon), i)
    x = correct(x, active, rms_norm(y, post_ffw_norm[i], rms_norm_epsilon) + r, i)
    # The layer input, gated by the active stream, is added to the other streams.
    active, others = split_streams(x)
    h = gelu(linear(inp_gate[i], active * altup_correct_scale[i]))
    own = rest
    if i < block_count - 1:
        own, rest = split(rest, per_layer_length, (block_count - i - 1) * per_layer_length)
    h = rms_norm(linear(proj[i], h * own), post_norm[i], rms_norm_epsilon)
    return split_heads(concat(active, merge_heads(split_heads(others, 3) + repeat(h, 3))), 4), shared, rest

def attend(h, i, windowed, rope_params, shared):
    """The first 20 layers have keys and values of their own; later ones take those of layer 18, which has a
    window, or 19, which has none."""
    windowed_kv, full_kv = shared
    q = rms_norm(split_heads(linear(attn_q[i], h), heads), attn_q_norm[i], rms_norm_epsilon)
    q = rope_halves(q, rope_params)
    if i < 20:
        k = rms_norm(split_heads(linear(attn_k[i], h), kv_heads), attn_k_norm[i], rms_norm_epsilon)
        k = rope_halves(k, rope_params)
        v = rms_norm(split_heads(linear(attn_v[i], h), kv_heads), None, rms_norm_epsilon)
        windowed_kv = [k, v] if i == 18 else windowed_kv
        full_kv = [k, v] if i == 19 else full_kv
    else:
        k, v = windowed_kv if windowed else full_kv
    o = attention(q, k, v, 1.0, causal=causal, window=window_length if windowed else 0)
    return o, [windowed_kv, full_kv]

def feed_forward_layer(h, i):
    g = linear(ffn_gate[i], h)
    if i < 10:
        g = largest(g, feed_forward_length[i])
    return linear(ffn_down[i], linear(ffn_up[i], h) * gelu(g))

def largest(g, width):
    """Keeps about 5 % of the numbers: those more than 1.64 standard deviations above the mean."""
    g = g - sum(g) / width
    return relu(g - sum(g * l2_norm(g, 1e-12)) * (1.6448533535003662 / sqrt(width - 1)))

def layer_inputs(x):
    """What all layers add besides, one after the other: an embedding of the token, and a projection of x."""
    e = split_heads(embed(per_layer_token_embd, tokens), block_count) * sqrt(per_layer_length)
    p = split_heads(linear(per_layer_model_proj, x) / sqrt(embedding_length), block_count)
    return merge_heads((rms_norm(p, per_layer_proj_norm, rms_norm_epsilon) + e) * sqrt(0.5))

def model():
    check_heads()
    check_rope()
    check_windows()
    assert streams == 4 and active_stream == 0, "there are other than four streams, or the first is not the active one"
    assert window_length > 0, "attention.sliding_window is 0"
    assert min([feed_forward_length[i] for i in range(block_count)]) >= 2, "a feed-forward layer is less than two wide"
    assert shared_kv == max(block_count - 20, 0), "attention.shared_kv_layers is not the number of layers after the first 20"
    assert block_count <= 20 or is_windowed(18, 5) and not is_windowed(19, 5), "the last two blocks with keys and values of their own are not one with a window and one without"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * sqrt(embedding_length)
    rest = layer_inputs(x)
    x = split_heads(concat(x, merge_heads(with_norm_of(head_linear(altup_proj, repeat(x, 3)), x))), 4)
    shared = [None, None]
    for i in range(block_count):
        x, shared, rest = layer(x, i, rope_params, shared, rest)
    active, others = split_streams(x)
    d = with_norm_of(head_linear(altup_unembd_proj, split_heads(others, 3)), active)
    a, b, c = split(merge_heads(d), embedding_length, embedding_length, embedding_length)
    y = linear(output, rms_norm((active + a + b + c) / 4.0, output_norm, rms_norm_epsilon))
    return logits(softcap(y, 30.0))

"""The decoder of WavTokenizer: a convolution over seven tokens, six residual blocks (the third is
attention, the last a normalization), and ConvNeXt blocks."""

def window7(x):
    b, a = shift(x), shift(x, ahead=True)
    bb, aa = shift(b), shift(a, ahead=True)
    return concat(concat(concat(shift(bb), bb), concat(b, x)), concat(concat(a, aa), shift(aa, ahead=True)))

def model():
    assert group_norm_groups > 0, "attention.group_norm_groups is 0"
    assert posnet_length % max(group_norm_groups, 1) == 0, "posnet.embedding_length is not a multiple of attention.group_norm_groups"
    zero = split_heads(constant([0.0]), 1)
    x = linear_taps(conv1d, split_heads(window7(embed(token_embd, tokens)), 7))
    r = x
    for half in range(2 * posnet_count):
        x, r = posnet_half(x, r, half, half // 2, zero)
    x = layer_norm(x, token_embd_norm, layer_norm_epsilon)
    for i in range(convnext_count):
        x = convnext(x, i)
    return embedding(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

def posnet_half(x, r, half, i, zero):
    """Half of a residual block: the new x, and the input of the block."""
    is_first = half % 2 == 0
    if i in [2, 5] and not is_first:
        return x, r
    r = x if is_first else r
    n = normalized_groups(x, zero)
    if i not in [2, 5]:
        weight, bias = [posnet.norm1[i].weight, posnet.norm1[i].bias] if is_first else [posnet.norm2[i].weight, posnet.norm2[i].bias]
        n = silu(n * weight + bias)
        n = linear_taps(posnet.conv1[i] if is_first else posnet.conv2[i], split_heads(concat(concat(shift(n), n), shift(n, ahead=True)), 3))
        return n if is_first else r + n, r
    x = n * posnet.attn_norm[i].weight + posnet.attn_norm[i].bias
    if i == 2:
        q, k, v = linear_taps(posnet.attn_q[i], split_heads(x, 1)), linear_taps(posnet.attn_k[i], split_heads(x, 1)), linear_taps(posnet.attn_v[i], split_heads(x, 1))
        o = attention(split_heads(q, 1), split_heads(k, 1), split_heads(v, 1), 1 / sqrt(posnet_length), causal=False)
        x = r + linear_taps(posnet.attn_output[i], split_heads(o, 1))
    return x, r

def normalized_groups(x, zero):
    """Groups of channels, normalized over all of the text. Attention with equal scores is the mean over it."""
    size = posnet_length / group_norm_groups
    g = split_heads(x, group_norm_groups)
    g = g - sum(split_heads(attention(zero, zero, split_heads(x, 1), 1.0, causal=False), group_norm_groups)) / size
    v = sum(split_heads(attention(zero, zero, split_heads(merge_heads(g * g), 1), 1.0, causal=False), group_norm_groups)) / size
    return merge_heads(g / sqrt(v + group_norm_epsilon))

def convnext(x, i):
    """A convolution over seven places of each channel, and a GELU layer."""
    c = split_heads(x, convnext_length)
    b, a = split_heads(shift(x), convnext_length), split_heads(shift(x, ahead=True), convnext_length)
    bb, aa = split_heads(shift(merge_heads(b)), convnext_length), split_heads(shift(merge_heads(a), ahead=True), convnext_length)
    c = concat(concat(split_heads(shift(merge_heads(bb)), convnext_length), bb), concat(b, c))
    a = concat(concat(a, aa), split_heads(shift(merge_heads(aa), ahead=True), convnext_length))
    d = merge_heads(head_linear(convnext.dw[i], concat(c, a))) + convnext.dw[i].bias
    h = layer_norm(d, convnext.norm[i], layer_norm_epsilon)
    return x + linear(convnext.pw2[i], gelu(linear(convnext.pw1[i], h))) * convnext.gamma[i].weight

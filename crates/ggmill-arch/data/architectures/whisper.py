"""Whisper: an encoder of spectrograms behind two convolutions, and a decoder of text that attends to it."""

def convolutions():
    """Two convolutions over three frames each, the second of which takes every other one. A vector of the
    source is an even frame and the odd one that follows."""
    even, odd = split(source_vectors(2 * mels_count), mels_count, mels_count)
    f = gelu_erf(linear_taps(encoder.conv1, split_heads(concat(concat(shift(odd), even), odd), 3)))
    s = gelu_erf(linear_taps(encoder.conv1, split_heads(concat(concat(even, odd), shift(even, ahead=True)), 3)))
    return linear_taps(encoder.conv2, split_heads(concat(concat(shift(s), f), s), 3))

def encoder_layer(e, i):
    h = layer_norm(e, encoder.attn_ln[i], 1e-5)
    q = split_heads(linear(encoder.attn.query[i], h), encoder_heads)
    k = split_heads(linear(encoder.attn.key[i], h), encoder_heads)
    v = split_heads(linear(encoder.attn.value[i], h), encoder_heads)
    e = e + linear(encoder.attn.out[i], attention(q, k, v, 1 / sqrt(encoder_length / encoder_heads), causal=False))
    h = layer_norm(e, encoder.mlp_ln[i], 1e-5)
    return e + linear(encoder.mlp._2[i], gelu_erf(linear(encoder.mlp._0[i], h)))

def decoder_layer(x, e, i):
    h = layer_norm(x, decoder.attn_ln[i], 1e-5)
    q = split_heads(linear(decoder.attn.query[i], h), decoder_heads)
    k = split_heads(linear(decoder.attn.key[i], h), decoder_heads)
    v = split_heads(linear(decoder.attn.value[i], h), decoder_heads)
    x = x + linear(decoder.attn.out[i], attention(q, k, v, 1 / sqrt(decoder_length / decoder_heads)))
    h = layer_norm(x, decoder.cross_attn_ln[i], 1e-5)
    q = split_heads(linear(decoder.cross_attn.query[i], h), decoder_heads)
    k = split_heads(linear(decoder.cross_attn.key[i], e), decoder_heads)
    v = split_heads(linear(decoder.cross_attn.value[i], e), decoder_heads)
    x = x + linear(decoder.cross_attn.out[i], attention(q, k, v, 1 / sqrt(decoder_length / decoder_heads), causal=False))
    h = layer_norm(x, decoder.mlp_ln[i], 1e-5)
    return x + linear(decoder.mlp._2[i], gelu_erf(linear(decoder.mlp._0[i], h)))

def model():
    assert encoder_heads > 0 and decoder_heads > 0, "the number of attention heads is 0"
    assert encoder_length % encoder_heads == 0 and decoder_length % decoder_heads == 0, "the embedding length is not a multiple of the number of attention heads"
    e = gelu_erf(convolutions()) + embed(encoder.positional_embedding, positions, source=True)
    for i in range(encoder_blocks):
        e = encoder_layer(e, i)
    e = layer_norm(e, encoder.ln_post, 1e-5)
    x = embed(decoder.token_embedding, tokens) + embed(decoder.positional_embedding, positions)
    for i in range(decoder_blocks):
        x = decoder_layer(x, e, i)
    return logits(linear(decoder.token_embedding, layer_norm(x, decoder.ln, 1e-5)))

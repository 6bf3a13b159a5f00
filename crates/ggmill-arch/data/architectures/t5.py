"""T5: an encoder and a decoder, with learned biases of scores by distance. The encoder reads the source."""

from t5encoder import activated, encoder_layer

def decoder_layer(x, e, i, biases):
    """The new x, and the biases of the last layer that has them."""
    biases = dec.attn_rel_b[i] if has(dec.attn_rel_b[i]) else biases
    h = rms_norm(x, dec.attn_norm[i], rms_norm_epsilon)
    q = split_heads(linear(dec.attn_q[i], h), heads)
    k = split_heads(linear(dec.attn_k[i], h), heads)
    v = split_heads(linear(dec.attn_v[i], h), heads)
    x = x + linear(dec.attn_o[i], attention(q, k, v, 1, buckets=biases))
    h = rms_norm(x, dec.cross_attn_norm[i], rms_norm_epsilon)
    q = split_heads(linear(dec.cross_attn_q[i], h), heads)
    k = split_heads(linear(dec.cross_attn_k[i], e), heads)
    v = split_heads(linear(dec.cross_attn_v[i], e), heads)
    x = x + linear(dec.cross_attn_o[i], attention(q, k, v, 1, causal=False))
    h = rms_norm(x, dec.ffn_norm[i], rms_norm_epsilon)
    return x + linear(dec.ffn_down[i], activated(h, dec.ffn_gate[i], dec.ffn_up[i])), biases

def model():
    assert has(rms_norm_epsilon), "attention.layer_norm_rms_epsilon is missing"
    assert heads > 0 and key_length > 0 and value_length > 0, "a number or a length of attention heads is 0"
    assert k_length == heads * key_length and v_length == heads * value_length, "the number of KV heads is not the number of attention heads"
    assert buckets >= 4 and buckets < 128, "attention.relative_buckets_count is below 4 or above 127"
    e = embed(token_embd, tokens, source=has_decoder)
    biases = None
    for i in range(block_count):
        e, biases = encoder_layer(e, i, biases)
    e = rms_norm(e, enc.output_norm, rms_norm_epsilon)
    x = embed(token_embd, tokens)
    biases = None
    for i in range(decoder_block_count):
        assert i > 0 or has(dec.attn_rel_b[i]), "the decoder has no dec.blk.0.attn_rel_b"
        x, biases = decoder_layer(x, e, i, biases)
    return logits(linear(output, rms_norm(x, dec.output_norm, rms_norm_epsilon)))

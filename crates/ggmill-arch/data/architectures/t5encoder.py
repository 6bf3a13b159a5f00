"""The encoder of T5, with learned biases of scores by distance."""

def activated(h, gate, up):
    return gelu(linear(gate, h)) * linear(up, h) if has(gate) else relu(linear(up, h))

def encoder_layer(x, i, biases):
    """The new x, and the biases of the last layer that has them."""
    biases = enc.attn_rel_b[i] if i == 0 or has(enc.attn_rel_b[i]) else biases
    h = rms_norm(x, enc.attn_norm[i], rms_norm_epsilon)
    q = split_heads(linear(enc.attn_q[i], h), heads)
    k = split_heads(linear(enc.attn_k[i], h), heads)
    v = split_heads(linear(enc.attn_v[i], h), heads)
    x = x + linear(enc.attn_o[i], attention(q, k, v, 1, causal=False, buckets=biases))
    h = rms_norm(x, enc.ffn_norm[i], rms_norm_epsilon)
    return x + linear(enc.ffn_down[i], activated(h, enc.ffn_gate[i], enc.ffn_up[i])), biases

def model():
    assert has(rms_norm_epsilon), "attention.layer_norm_rms_epsilon is missing"
    assert heads > 0 and key_length > 0 and value_length > 0, "a number or a length of attention heads is 0"
    assert k_length == heads * key_length and v_length == heads * value_length, "the number of KV heads is not the number of attention heads"
    assert buckets >= 4 and buckets < 128, "attention.relative_buckets_count is below 4 or above 127"
    x = embed(token_embd, tokens, source=has_decoder)
    biases = None
    for i in range(block_count):
        x, biases = encoder_layer(x, i, biases)
    return embedding(rms_norm(x, enc.output_norm, rms_norm_epsilon))

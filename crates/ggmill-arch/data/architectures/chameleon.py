"""Chameleon: a Llama with normalized queries and keys. It never predicts the tokens of images, 4 to 8195."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = layer_norm(split_heads(linear(attn_q[i], h), heads), attn_q_norm[i], 1e-5)
    k = layer_norm(split_heads(linear(attn_k[i], h), kv_heads), attn_k_norm[i], 1e-5)
    q = rope_pairs(q, rope_params)
    k = rope_pairs(k, rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    assert key_length == value_length and rope_length == key_length and q_length == embedding_length, "rope.dimension_count or the length of values is not that of keys, or the total length of the attention heads is not the embedding length"
    assert vocab_size >= 8196, "the vocabulary ends before the last of the tokens of images, which is 8195"
    assert not swin_norm, "swin_norm is true, for which llama.cpp and transformers compute different results"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    never = None
    for i in range(block_count):
        x = layer(x, i, rope_params)
        never = constant([-3.4028235e38]) if i == 0 else never
    y = linear(output, rms_norm(x, output_norm, rms_norm_epsilon))
    never = merge_heads(repeat(never, 8192))
    if vocab_size >= 8197:
        before, images, after = split(y, 4, 8192, vocab_size - 8196)
        return logits(concat(concat(before, never), after))
    before, images = split(y, 4, 8192)
    return logits(concat(before, never))

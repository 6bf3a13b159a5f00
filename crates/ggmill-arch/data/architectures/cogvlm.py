"""CogVLM, for text: a Llama with queries, keys and values in one matrix."""

def layer(x, i):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), q_length, k_length, v_length)
    q = rope(split_heads(q, heads), "halves", key_length, 10000.0)
    k = rope(split_heads(k, kv_heads), "halves", key_length, 10000.0)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    assert kv_heads == heads and key_length == value_length and q_length == embedding_length and key_length % 2 == 0, "queries, keys and values do not have as many heads as each other, as long as the embedding in all"
    assert rope_length == key_length, "rope.dimension_count is not the length of an attention head"
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

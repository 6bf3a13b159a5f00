"""NeoBERT: a Llama that attends in both directions."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), q_length, k_length, v_length)
    q = rope_pairs(split_heads(q, heads), rope_params)
    k = rope_pairs(split_heads(k, kv_heads), rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=False))
    return x + fused_swiglu(rms_norm(x, ffn_norm[i], rms_norm_epsilon), ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    assert q_length == embedding_length and k_length == v_length, "the attention heads do not divide the embedding, or keys and values have different lengths"
    assert has(rms_norm_epsilon), "attention.layer_norm_rms_epsilon is missing"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return embedding(rms_norm(x, enc.output_norm, rms_norm_epsilon))

"""Spark 2.5: a gate for each attention head; windows in the layers of a list."""

def layer(x, i, rope_params):
    windowed = window_period[i]
    rope_params = with_base(rope_params, local_base) if windowed else rope_params
    length = local_length if windowed else rope_length
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), q_length, k_length, v_length)
    q = rope_halves(split_heads(q, heads), rope_params, length)
    k = rope_halves(split_heads(k, kv_heads), rope_params, length)
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, window=window_length if windowed else 0)
    o = split_heads(o, heads) * sigmoid(split_heads(linear(attn_gate[i], h), heads))
    x = x + linear(attn_output[i], merge_heads(o))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + geglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    check_windows()
    assert window_length > 0, "attention.sliding_window is 0"
    assert is_list(window_period), "attention.sliding_window_pattern is not a list"
    assert local_length > 0 and local_length % 2 == 0 and local_length <= key_length, "rope.dimension_count_swa is odd, 0, or greater than the length of an attention head"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""ModernBERT: rotary positions, windows in two of three layers, and a gate in the feed-forward layer."""

def layer(x, i, rope_params):
    windowed = window > 0 and (window_period[i] if is_list(window_period) else i % first(window_period, 3) != 0)
    rope_params = unscaled(rope_params, local_base) if windowed else rope_params
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon) if has(attn_norm[i]) else x
    q, k, v = split(linear(attn_qkv[i], h), q_length, k_length, v_length)
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, kv_heads), rope_params)
    reach = window // 2
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=False, window=reach + 1 if windowed else 0, ahead=reach if windowed else None)
    x = x + linear(attn_output[i], o)
    g, u = split(linear(ffn_up[i], layer_norm(x, ffn_norm[i], layer_norm_epsilon)), feed_forward, feed_forward)
    is_silu = first(gate_function, "") in ["silu", "swish", "swiglu"]
    return x + linear(ffn_down[i], (silu(g) if is_silu else gelu(g)) * u)

def model():
    check_heads()
    check_rope()
    assert q_length == embedding_length and k_length == embedding_length and v_length == embedding_length, "the attention heads do not divide the embedding, or there are other KV heads than attention heads"
    assert has(layer_norm_epsilon), "attention.layer_norm_epsilon is missing"
    assert first(gate_function, "") not in ["relu", "reglu"], "hidden_activation is relu"
    assert window == 0 or is_list(window_period) or first(window_period, 3) != 0, "attention.sliding_window_pattern is 0"
    assert not is_list(window_period) or len(window_period) >= block_count, "attention.sliding_window_pattern does not have one element for each layer"
    assert local_base > 0.0, "rope.freq_base_swa is not positive"
    rope_params = rope_parameters()
    x = layer_norm(embed(token_embd, tokens), token_embd_norm, layer_norm_epsilon)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return embedding(layer_norm(x, output_norm, layer_norm_epsilon))

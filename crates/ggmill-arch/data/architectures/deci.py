"""DeciLM (Nemotron NAS): every layer has its own number of heads and its own width. It may have a matrix
in place of attention, or lack attention or the feed-forward layer."""

def layer(x, i, rope_params):
    if block_heads[i] > 0 and block_kv_heads[i] > 0:
        h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
        q = rope_pairs(split_heads(linear(attn_q[i], h), block_heads[i]), rope_params, factors=optional(rope_freqs))
        k = rope_pairs(split_heads(linear(attn_k[i], h), block_kv_heads[i]), rope_params, factors=optional(rope_freqs))
        v = split_heads(linear(attn_v[i], h), block_kv_heads[i])
        x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal))
    elif block_heads[i] > 0:
        x = x + linear(attn_output[i], rms_norm(x, attn_norm[i], rms_norm_epsilon))
    if block_widths[i] > 0:
        h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
        x = x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    return x

def model():
    check_rope()
    assert key_length > 0 and value_length == key_length, "the lengths of keys and values differ, or are 0"
    rope_params = rope_parameters()
    check_rope_factors(rope_freqs)
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert block_kv_heads[i] == 0 or block_heads[i] % block_kv_heads[i] == 0, "the number of attention heads of a block is not a multiple of the number of its KV heads"
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

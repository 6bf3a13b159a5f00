"""Qwen (the first): a Llama with queries, keys and values in one matrix."""

def layer(x, i, rope_params):
    q, k, v = split(linear(attn_qkv[i], rms_norm(x, attn_norm[i], epsilon)), q_length, q_length, q_length)
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, heads), rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, heads), 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    assert kv_heads == heads and key_length == value_length, "there are fewer KV heads than attention heads, or the lengths of keys and values differ"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, epsilon)))

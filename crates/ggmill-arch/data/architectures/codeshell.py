"""CodeShell: GPT-2 with rotary positions and shared keys and values."""

def layer(x, i, rope_params):
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), embedding_length, v_length, v_length)
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, kv_heads), rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal))
    return x + gelu_mlp(layer_norm(x, ffn_norm[i], layer_norm_epsilon), ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    check_embedding_is_heads()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

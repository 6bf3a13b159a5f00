"""GPT-J: attention and feed-forward layer side by side, on one input."""

def layer(x, i, rope_params):
    h = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    q = rope_pairs(split_heads(linear(attn_q[i], h), heads), rope_params)
    k = rope_pairs(split_heads(linear(attn_k[i], h), kv_heads), rope_params)
    o = linear(attn_output[i], attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length)))
    return x + (o + gelu_mlp(h, ffn_up[i], ffn_down[i]))

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

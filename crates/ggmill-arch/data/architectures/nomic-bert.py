"""Nomic BERT: BERT with rotary positions and a SwiGLU layer."""

def layer(x, i, rope_params):
    q, k, v = project_qkv(x, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, kv_heads), rope_params)
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=False)
    x = layer_norm(x + linear(attn_output[i], o), attn_output_norm[i], layer_norm_epsilon)
    return layer_norm(x + swiglu(x, ffn_gate[i], ffn_up[i], ffn_down[i]), layer_output_norm[i], layer_norm_epsilon)

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    x = x + embed(token_types.weight, 0) if has(token_types.weight) else x
    x = layer_norm(x, token_embd_norm, layer_norm_epsilon)
    for i in range(block_count):
        assert not has(ffn_up[i].bias) and not has(ffn_down[i].bias), "a feed-forward layer has a bias, which llama.cpp does not use"
        x = layer(x, i, rope_params)
    return embedding(x)

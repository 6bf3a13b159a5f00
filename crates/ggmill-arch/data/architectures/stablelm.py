"""StableLM: a Llama with layer norms; some models apply attention and feed-forward layer to one input."""

def layer(x, i, rope_params):
    a = layer_norm(x, attn_norm[i], layer_norm_epsilon)
    q, k, v = project_qkv(a, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = split_heads(q, heads)
    k = split_heads(k, kv_heads)
    q = layer_norm(q, attn_q_norm[i], layer_norm_epsilon) if has(attn_q_norm[i]) else q
    k = layer_norm(k, attn_k_norm[i], layer_norm_epsilon) if has(attn_k_norm[i]) else k
    o = attention(rope_halves(q, rope_params), rope_halves(k, rope_params), split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal)
    x = x + linear(attn_output[i], o)
    h = layer_norm(x, ffn_norm[i], layer_norm_epsilon) if has(ffn_norm[i]) else a
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

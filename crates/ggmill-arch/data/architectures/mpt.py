"""MPT: ALiBi in place of positions, or learned positions."""

def layer(x, i):
    clip = first(clip_length, 0.0)
    qkv = linear(attn_qkv[i], layer_norm(x, attn_norm[i], layer_norm_epsilon))
    q, k, v = split(clamp(qkv, -clip, clip) if clip > 0.0 else qkv, embedding_length, v_length, v_length)
    q = layer_norm(q, attn_q_norm[i], layer_norm_epsilon) if has(attn_q_norm[i]) else q
    k = layer_norm(k, attn_k_norm[i], layer_norm_epsilon) if has(attn_k_norm[i]) else k
    o = attention(split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, alibi=first(max_alibi_bias, 0.0))
    x = x + linear(attn_output[i], o)
    y = gelu(linear(ffn_up[i], layer_norm(x, ffn_norm[i], layer_norm_epsilon)))
    return x + linear(ffn_down[i], y / ffn.act.scales[i] if has(ffn.act.scales[i]) else y)

def model():
    check_heads()
    check_embedding_is_heads()
    x = embed(token_embd, tokens)
    x = x + embed(position_embd, positions) if has(position_embd) else x
    for i in range(block_count):
        assert not has(attn_k_norm[i]) or v_length == embedding_length, "keys are normalized over the embedding length, but there are fewer KV heads than attention heads"
        x = layer(x, i)
    return logits(linear(output, layer_norm(x, output_norm, layer_norm_epsilon)))

"""OLMo 2 and 3: normalization after each layer, not before, and of queries and keys over all heads;
windows in OLMo 3."""

def layer(x, i, rope_params):
    windowed = window_length > 0 and is_windowed(i, 4)
    rope_params = plain_rope_parameters(local_base) if windowed else rope_params
    q, k, v = project_qkv(x, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rms_norm(q, attn_q_norm[i], rms_norm_epsilon)
    k = rms_norm(k, attn_k_norm[i], rms_norm_epsilon)
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, kv_heads), rope_params)
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal, window=window_length if windowed else 0)
    x = x + rms_norm(linear(attn_output[i], o), post_attention_norm[i], rms_norm_epsilon)
    return x + rms_norm(swiglu(x, ffn_gate[i], ffn_up[i], ffn_down[i]), post_ffw_norm[i], rms_norm_epsilon)

def model():
    check_heads()
    check_rope()
    check_windows()
    check_embedding_is_heads()
    assert embedding_length % heads == 0 and k_length == kv_heads * (embedding_length // heads), "the length of an attention head is not the embedding length divided by the number of heads"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

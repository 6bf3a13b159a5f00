"""BitNet: a Llama with normalizations before the last matrix of attention and of the feed-forward layer."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(q, rope_params)
    k = rope_halves(k, rope_params)
    x = x + linear(attn_output[i], rms_norm(attention(q, k, v, 1 / sqrt(key_length), causal=causal), attn_sub_norm[i], rms_norm_epsilon))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    u = rms_norm(silu(linear(ffn_gate[i], h)) * linear(ffn_up[i], h), ffn_sub_norm[i], rms_norm_epsilon)
    return x + linear(ffn_down[i], u)

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(token_embd, rms_norm(x, output_norm, rms_norm_epsilon)))

"""Nemotron-H: each layer is Mamba 2, attention without positions, or a squared ReLU."""

def layer(x, i):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    y = None
    if mamba_blocks[i]:
        y = mamba2(h, ssm_in[i], ssm_conv1d[i], ssm_dt[i], ssm_a[i], ssm_d[i], ssm_norm[i], ssm_out[i])
    if attention_here[i]:
        y = attend(h, i)
    if block_feed_forward[i] > 0:
        y = squared_relu_mlp(h, ffn_up[i], ffn_down[i])
    return x + y

def attend(h, i):
    q = split_heads(linear(attn_q[i], h), heads)
    k = split_heads(linear(attn_k[i], h), block_kv_heads[i])
    v = split_heads(linear(attn_v[i], h), block_kv_heads[i])
    return linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length)))

def model():
    check_mamba2()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        assert not attention_here[i] or heads > 0 and heads % block_kv_heads[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x = layer(x, i)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

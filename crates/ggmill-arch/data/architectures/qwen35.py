"""Qwen 3.5: linear attention (gated delta rule) in most layers, gated attention in the others."""

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    x = x + (delta_attention(h, i) if recurrent[i] else gated_attention(h, i, rope_params))
    h = rms_norm(x, post_attention_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def delta_attention(h, i):
    q, k, v, z = delta_inputs(h, attn_qkv[i], ssm_conv1d[i], attn_gate[i])
    y = gated_delta(h, q, k, v, ssm_beta[i], ssm_alpha[i], ssm_dt[i].bias, ssm_a[i])
    return linear(ssm_out[i], merge_heads(rms_norm(y, ssm_norm[i], rms_norm_epsilon) * silu(z)))

def gated_attention(h, i, rope_params):
    q, gate, k = gated_queries(h, attn_q[i], attn_k[i], attn_q_norm[i], attn_k_norm[i], rope_params)
    y = attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length))
    return linear(attn_output[i], y * sigmoid(merge_heads(gate)))

def check_delta():
    assert heads > 0 and kv_heads > 0 and key_length > 0 and key_length == value_length and heads % kv_heads == 0, "the lengths of keys and values differ, a number or a length of attention heads is 0, or the heads are not a multiple of the KV heads"
    assert key_heads > 0 and value_heads > 0 and state_size > 0 and value_head > 0 and conv_kernel > 0 and value_heads % key_heads == 0, "a size of the state is 0, or the heads of values are not a multiple of those of keys"

def gated_queries(h, q, k, q_norm, k_norm, rope_params):
    """Queries with a gate for the output of attention beside them, and keys; both rotated."""
    q, gate = split(split_heads(linear(q, h), heads), key_length, key_length)
    q = rms_norm(q, q_norm, rms_norm_epsilon)
    k = rms_norm(split_heads(linear(k, h), kv_heads), k_norm, rms_norm_epsilon)
    q = rope_halves(q, rope_params, rope_length)
    k = rope_halves(k, rope_params, rope_length)
    return q, gate, k

def delta_inputs(h, qkv, conv, gate):
    """Queries, keys and values behind a short convolution, and the gate of the output."""
    q, k, v = split(silu(causal_conv(conv, linear(qkv, h))), key_heads * state_size, key_heads * state_size, inner_size)
    q = rms_norm(split_heads(q, key_heads), None, rms_norm_epsilon / state_size) / state_size
    k = rms_norm(split_heads(k, key_heads), None, rms_norm_epsilon / state_size) / sqrt(state_size)
    return q, k, split_heads(v, value_heads), split_heads(linear(gate, h), value_heads)

def gated_delta(h, q, k, v, beta, alpha, dt_bias, a):
    q = repeat(q, values_per_key)
    k = repeat(k, values_per_key)
    beta = sigmoid(split_heads(linear(beta, h), value_heads))
    decay = exp(split_heads(softplus(linear(alpha, h) + dt_bias) * a, value_heads))
    return delta_rule(q, k, v, beta, decay)

def model():
    check_rope()
    check_delta()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

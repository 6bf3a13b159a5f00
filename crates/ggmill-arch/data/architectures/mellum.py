"""Mellum: experts in every layer; positions are not scaled in layers with a window."""

def layer(x, i, rope_params):
    windowed = window_length > 0 and is_windowed(i, 4)
    rope_params = plain_rope_parameters(rope_params[0]) if windowed else rope_params
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(rms_norm(q, attn_q_norm[i], rms_norm_epsilon), rope_params)
    k = rope_halves(rms_norm(k, attn_k_norm[i], rms_norm_epsilon), rope_params)
    x = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal, window=window_length if windowed else 0))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])

def model():
    check_heads()
    check_rope()
    check_windows()
    check_experts_used()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

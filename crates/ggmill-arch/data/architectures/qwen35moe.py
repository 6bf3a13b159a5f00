"""Qwen 3.5 MoE: linear attention (gated delta rule) in most layers, gated attention in the others; experts
with a shared expert that has a gate."""

def layer(x, i, angles):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    x = x + (delta_attention(h, i) if recurrent[i] else gated_attention(h, i, angles))
    h = rms_norm(x, post_attention_norm[i], rms_norm_epsilon)
    y = softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    shared = swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])
    return x + y + shared * sigmoid(linear(ffn_gate_inp_shexp[i], h))

def delta_attention(h, i):
    q, k, v, z = delta_inputs(h, attn_qkv[i], ssm_conv1d[i], attn_gate[i])
    y = gated_delta(h, q, k, v, ssm_beta[i], ssm_alpha[i], ssm_dt[i].bias, ssm_a[i])
    return linear(ssm_out[i], merge_heads(rms_norm(y, ssm_norm[i], rms_norm_epsilon) * silu(z)))

def gated_attention(h, i, angles):
    q, gate, k = gated_queries(h, attn_q[i], attn_k[i], attn_q_norm[i], attn_k_norm[i], angles)
    y = attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length))
    return linear(attn_output[i], y * sigmoid(merge_heads(gate)))

def model():
    check_rope()
    check_delta()
    angles = rope_angles()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, angles)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

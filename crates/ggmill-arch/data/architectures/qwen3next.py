"""Qwen 3 Next: linear attention (gated delta rule) in most layers, gated attention in the others; experts
with a shared expert that has a gate."""

from qwen35 import check_delta, delta_inputs, gated_attention

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    x = x + (delta_attention(h, i) if recurrent[i] else gated_attention(h, i, rope_params))
    h = rms_norm(x, post_attention_norm[i], rms_norm_epsilon)
    y = softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    shared = swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])
    return x + y + shared * sigmoid(linear(ffn_gate_inp_shexp[i], h))

def delta_attention(h, i):
    q, k, v, z = delta_inputs(h, attn_qkv[i], ssm_conv1d[i], attn_gate[i])
    # One matrix has beta and the decay of the values of each key.
    beta, decay = split(split_heads(linear(ssm_ba[i], h), key_heads), values_per_key, values_per_key)
    beta = sigmoid(split_heads(merge_heads(beta), value_heads))
    decay = exp(split_heads(softplus(merge_heads(decay) + ssm_dt[i].bias) * ssm_a[i], value_heads))
    k = repeat(k, values_per_key, each=True)
    y = delta_rule(q, k, v, beta, decay)
    return linear(ssm_out[i], merge_heads(rms_norm(y, ssm_norm[i], rms_norm_epsilon) * silu(z)))

def model():
    check_rope()
    check_delta()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""Qwen 3.5 MoE: linear attention (gated delta rule) in most layers, gated attention in the others; experts
with a shared expert that has a gate."""

from qwen35 import check_delta, delta_attention, gated_attention

def layer(x, i, rope_params):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    x = x + (delta_attention(h, i) if recurrent[i] else gated_attention(h, i, rope_params))
    h = rms_norm(x, post_attention_norm[i], rms_norm_epsilon)
    y = softmax_moe(h, ffn_gate_inp[i], ffn_gate_exps[i], ffn_up_exps[i], ffn_down_exps[i])
    shared = swiglu(h, ffn_gate_shexp[i], ffn_up_shexp[i], ffn_down_shexp[i])
    return x + y + shared * sigmoid(linear(ffn_gate_inp_shexp[i], h))

def model():
    check_rope()
    check_delta()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(trunk_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

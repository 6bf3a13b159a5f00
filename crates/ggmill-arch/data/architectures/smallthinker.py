"""SmallThinker: experts that are chosen by the input of the block, before attention; three of four layers
have positions and a window."""

def layer(x, i, rope_params):
    windowed = window_length > 0 and (window_period[i] if is_list(window_period) else i % first(window_period, 4) != 0)
    rope_params = with_base(rope_params, local_base) if windowed else rope_params
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = qkv_heads(h, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    if window_length == 0 or block_count == 4 or i % 4 != 0:
        q = rope_halves(q, rope_params)
        k = rope_halves(k, rope_params)
    r = x + linear(attn_output[i], attention(q, k, v, 1 / sqrt(key_length), causal=causal, window=4096 if windowed else 0))
    p = linear(ffn_gate_inp[i], x)
    p = sigmoid(p) if expert_gating == 2 else softmax(p)
    experts = top_k(p, experts_used)
    h = rms_norm(r, ffn_norm[i], rms_norm_epsilon)
    u = relu(expert_linear(ffn_gate_exps[i], h, experts)) * expert_linear(ffn_up_exps[i], h, experts)
    return r + weighted_sum(expert_linear(ffn_down_exps[i], u, experts), normalize(gather(p, experts)))

def model():
    check_heads()
    check_rope()
    check_windows()
    check_experts()
    check_gating()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

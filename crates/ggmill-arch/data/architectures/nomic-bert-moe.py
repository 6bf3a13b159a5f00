"""Nomic BERT MoE: experts with GELU in every second layer."""

def layer(x, i, rope_params):
    q, k, v = project_qkv(x, attn_qkv[i], attn_q[i], attn_k[i], attn_v[i])
    q = rope_halves(split_heads(q, heads), rope_params)
    k = rope_halves(split_heads(k, kv_heads), rope_params)
    o = attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=False)
    x = layer_norm(x + linear(attn_output[i], o), attn_output_norm[i], layer_norm_epsilon)
    return layer_norm(x + feed_forward_layer(x, i), layer_output_norm[i], layer_norm_epsilon)

def feed_forward_layer(h, i):
    if expert_layers == 0 or i % max(expert_layers, 1) != 1:
        return gelu_mlp(h, ffn_up[i], ffn_down[i])
    p = softmax(linear(ffn_gate_inp[i], h))
    experts = top_k(p, experts_used)
    weights = gather(p, experts) * routed_scale if routed_scale != 0.0 else gather(p, experts)
    return weighted_sum(expert_linear(ffn_down_exps[i], gelu(expert_linear(ffn_up_exps[i], h, experts)), experts), weights)

def model():
    check_heads()
    check_rope()
    assert expert_layers == 0 or experts_used > 0 and experts_used <= expert_count, "expert_used_count is 0, or greater than the number of experts"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    x = x + embed(token_types.weight, 0) if has(token_types.weight) else x
    x = layer_norm(x, token_embd_norm, layer_norm_epsilon)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return embedding(x)

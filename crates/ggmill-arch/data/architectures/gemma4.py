"""Gemma 4: layers with a window have shorter heads, the last layers use keys and values of earlier ones,
experts may stand beside the dense layer, and each layer adds an embedding of the token of its own."""

from gemma3n import layer_inputs

def layer(x, i, rope_params, shared, rest):
    """The new x, the keys and values that later layers share (of windowed layers, and of others), and the
    inputs of later layers."""
    windowed_kv, full_kv = shared
    rope_params = unscaled(rope_params, local_base) if windowed[i] else rope_params
    length = local_rotary if windowed[i] else rope_length
    factors = None if windowed[i] else rope_freqs
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q = rms_norm(split_heads(linear(attn_q[i], h), heads), attn_q_norm[i], rms_norm_epsilon)
    q = rope_halves(q, rope_params, length, factors)
    if i < own_kv:
        k = split_heads(linear(attn_k[i], h), kv_of_block[i])
        v = rms_norm(split_heads(linear(attn_v[i], h), kv_of_block[i]) if has(attn_v[i]) else k, None, rms_norm_epsilon)
        k = rms_norm(k, attn_k_norm[i], rms_norm_epsilon)
        k = rope_halves(k, rope_params, length, factors)
        windowed_kv = [k, v] if i == own_kv - 2 else windowed_kv
        full_kv = [k, v] if i == own_kv - 1 else full_kv
    else:
        k, v = windowed_kv if windowed[i] else full_kv
    o = attention(q, k, v, 1.0, window=window_length if windowed[i] else 0)
    x = x + rms_norm(linear(attn_output[i], o), post_attention_norm[i], rms_norm_epsilon)
    x = x + rms_norm(feed_forward_layer(x, i), post_ffw_norm[i], rms_norm_epsilon)
    if rest is not None:
        own = rest
        if i < block_count - 1:
            own, rest = split(rest, per_layer_length, (block_count - i - 1) * per_layer_length)
        x = x + rms_norm(linear(proj[i], gelu(linear(inp_gate[i], x)) * own), post_norm[i], rms_norm_epsilon)
    x = merge_heads(split_heads(x, 1) * layer_output_scale[i]) if has(layer_output_scale[i]) else x
    return x, [windowed_kv, full_kv], rest

def feed_forward_layer(x, i):
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    y = geglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])
    if expert_count == 0:
        return y
    c = rms_norm(x, None, rms_norm_epsilon) / sqrt(embedding_length) * ffn_gate_inp[i].scale
    p = softmax(merge_heads(head_linear(ffn_gate_inp[i], split_heads(c, 1))))
    experts = top_k(p, experts_used)
    g, u = split(expert_linear(ffn_gate_up_exps[i], rms_norm(x, pre_ffw_norm_2[i], rms_norm_epsilon), experts), expert_feed_forward_length, expert_feed_forward_length)
    z = weighted_sum(expert_linear(ffn_down_exps[i], gelu(g) * u, experts), normalize(gather(p, experts)))
    return rms_norm(y, post_ffw_norm_1[i], rms_norm_epsilon) + rms_norm(z, post_ffw_norm_2[i], rms_norm_epsilon)

def model():
    check_rope()
    assert causal, "attention.causal is false, for which llama.cpp decides by the input"
    assert heads > 0 and head_full > 0 and head_windowed > 0 and window_length > 0, "attention.sliding_window, or a number or a length of attention heads, is 0"
    assert rope_length == head_full and local_rotary > 0 and local_rotary % 2 == 0 and local_rotary <= head_windowed and local_base > 0.0, "rope.dimension_count differs from the head dimension, or rope.dimension_count_swa is odd or greater than it, or rope.freq_base_swa is not positive"
    assert len(windowed) >= block_count, "attention.sliding_window_pattern does not have one element for each layer"
    assert shared_kv == 0 or own_kv >= 2 and windowed[max(own_kv - 2, 0)] and not windowed[max(own_kv - 1, 0)], "the last two blocks with keys and values of their own are not one with a window and one without"
    assert expert_count == 0 or experts_used > 0 and experts_used <= expert_count and first(expert_feed_forward_length, 0) != 0, "expert_used_count is 0, or greater than the number of experts, or the width of an expert is 0"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens) * sqrt(embedding_length)
    rest = layer_inputs(x) if per_layer_length > 0 else None
    shared = [None, None]
    for i in range(block_count):
        assert kv_of_block[i] > 0 and heads % kv_of_block[i] == 0, "the number of attention heads is not a multiple of the number of KV heads"
        x, shared, rest = layer(x, i, rope_params, shared, rest)
    y = linear(output, rms_norm(x, output_norm, rms_norm_epsilon))
    limit = first(final_softcap, 30.0)
    return logits(softcap(y, limit) if limit != 0.0 else y)

"""Granite Switch: one Granite with many LoRA adapters. Some tokens switch an adapter on: after such a token,
every matrix adds the product of two small matrices of that adapter. After several, the adapter is that of
the rounded mean of their indices."""

from granite import embedding_factor, residual_factor, score_scale

def adapted(linear_result, lora_a, lora_b, h, adapter):
    """The result of a matrix, plus that of the adapter's two matrices. Adapter 0 stands for none: its matrices are zero."""
    return linear_result + merge_heads(expert_linear(lora_b, expert_linear(lora_a, h, adapter), adapter))

def layer(x, i, rope_params, adapter):
    h = rms_norm(x, attn_norm[i], rms_norm_epsilon)
    q, k, v = split(linear(attn_qkv[i], h), q_length, k_length, v_length)
    q = split_heads(adapted(q, attn_q.lora_a[i], attn_q.lora_b[i], h, adapter), heads)
    k = split_heads(adapted(k, attn_k.lora_a[i], attn_k.lora_b[i], h, adapter), kv_heads)
    v = split_heads(adapted(v, attn_v.lora_a[i], attn_v.lora_b[i], h, adapter), kv_heads)
    q = rope_pairs(q, rope_params) if turned else q
    k = rope_pairs(k, rope_params) if turned else k
    o = attention(q, k, v, score_scale(), causal=causal)
    o = adapted(linear(attn_output[i], o), attn_output.lora_a[i], attn_output.lora_b[i], o, adapter)
    x = x + o * residual_factor()
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    g = adapted(linear(ffn_gate[i], h), ffn_gate.lora_a[i], ffn_gate.lora_b[i], h, adapter)
    u = adapted(linear(ffn_up[i], h), ffn_up.lora_a[i], ffn_up.lora_b[i], h, adapter)
    y = silu(g) * u
    y = adapted(linear(ffn_down[i], y), ffn_down.lora_a[i], ffn_down.lora_b[i], y, adapter)
    return x + y * residual_factor()

def switched(x, number, adapter):
    """A token that switches this adapter on gets the embedding of its substitute and, as `number`, the index
    of the adapter from 1. Other tokens keep 0."""
    switches = is_token(activate[adapter])
    x = x * (1.0 - switches) + embed(token_embd, substitute[adapter]) * switches
    return x, number * (1.0 - switches) + switches * (adapter + 1)

def chosen_adapter(number):
    """The adapter of each token: the mean index of the switching tokens so far, itself included, rounded. With
    one such token it is the adapter of this token. Attention computes the mean: the scores of switching tokens are greater than those of
    others by 2 * router_gain, so only they count."""
    scores = (clamp(number, 0.0, 1.0) * 2.0 - 1.0) * router_gain
    mean = attention(constant([1.0]), scores, number, 1.0)
    return expert_indices(round(clamp(mean, 0.0, adapter_count)), adapter_count + 1)

def model():
    check_heads()
    check_rope()
    assert key_length == value_length and rope_length == key_length, "rope.dimension_count or the length of values is not that of keys"
    assert first(logit_scale, 0.0) != 0.0, "logit_scale is missing or 0"
    assert adapter_count <= 1024 and lora_rank <= 4096 and lora_rank > 0, "adapters.count is greater than 1024, adapters.lora_rank is greater than 4096, or adapters.lora_rank is 0"
    assert len(activate) == adapter_count and len(substitute) == adapter_count, "adapters.token_ids_activate or adapters.token_ids_substitute does not have one token for each adapter"
    assert has_tokens, "a token of adapters.token_ids_activate is negative, or one of adapters.token_ids_substitute is not in the vocabulary"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    number = constant([0.0])
    for adapter in range(adapter_count):
        x, number = switched(x, number, adapter)
    x = x * embedding_factor()
    adapter = chosen_adapter(number)
    for i in range(block_count):
        x = layer(x, i, rope_params, adapter)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)) / logit_scale)

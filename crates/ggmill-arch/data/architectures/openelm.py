"""OpenELM: every layer has its own number of heads and its own width."""

def layer(x, i, rope_params):
    heads, kv_heads = head_count[i], head_count_kv[i]
    q, k, v = split(linear(attn_qkv[i], rms_norm(x, attn_norm[i], rms_norm_epsilon)), heads * key_length, kv_heads * key_length, kv_heads * key_length)
    q = rope_halves(rms_norm(split_heads(q, heads), attn_q_norm[i], rms_norm_epsilon), rope_params)
    k = rope_halves(rms_norm(split_heads(k, kv_heads), attn_k_norm[i], rms_norm_epsilon), rope_params)
    x = x + linear(attn_output[i], attention(q, k, split_heads(v, kv_heads), 1 / sqrt(key_length), causal=causal))
    h = rms_norm(x, ffn_norm[i], rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        assert head_count[i] > 0 and head_count_kv[i] > 0 and head_count[i] % head_count_kv[i] == 0, "the number of attention heads of a block is not a multiple of the number of its KV heads, or one of them is 0"
        x = layer(x, i, rope_params)
    return logits(linear(token_embd, rms_norm(x, output_norm, rms_norm_epsilon)))

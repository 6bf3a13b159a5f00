"""HRM: two stacks of layers, a high one and a low one, each run several times. In each of the high
cycles, the low stack runs a few times on the sum of both states, and then the high stack."""

def layer(x, i, rope_params):
    h = rms_norm(x, None, rms_norm_epsilon)
    q = rope_halves(split_heads(linear(attn_q[i], h), heads), rope_params)
    k = rope_halves(split_heads(linear(attn_k[i], h), kv_heads), rope_params)
    o = attention(q, k, split_heads(linear(attn_v[i], h), kv_heads), 1 / sqrt(key_length), causal=causal)
    x = x + linear(attn_output[i], o * sigmoid(linear(attn_gate[i], h)))
    h = rms_norm(x, None, rms_norm_epsilon)
    return x + swiglu(h, ffn_gate[i], ffn_up[i], ffn_down[i])

def model():
    check_heads()
    check_rope()
    assert stack > 0 and h_cycles > 0 and l_cycles > 0 and block_count == stack * h_cycles * (l_cycles + 1), "block_count is not the number of blocks of all turns (hrm.layers_per_stack, hrm.h_cycles, hrm.l_cycles), or one of these is 0"
    assert kv_heads == heads, "there are not as many KV heads as attention heads"
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    high = x * (embedding_scale if embedding_scale != 0.0 else 1.0)
    x = high + hrm.z_l_init
    low = x
    for turn in range(block_count):
        is_high = turn // stack % (l_cycles + 1) == l_cycles
        # The high stack is behind the low one.
        x = layer(x, turn % stack + (stack if is_high else 0), rope_params)
        if turn % stack == stack - 1:
            x = rms_norm(x, None, rms_norm_epsilon)
            high, low = [x, low] if is_high else [high, x]
            x = high + low if turn < block_count - 1 else x
    return logits(linear(output, high))

"""Nanbeige: a Llama that may run all its layers twice."""

from mistral3 import layer

def model():
    check_heads()
    check_rope()
    assert loops <= 2, "num_loops is greater than 2"
    check_rope_factors(rope_freqs)
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    if loops == 2 and not skip_loop_final_norm:
        x = rms_norm(x, output_norm, rms_norm_epsilon)
    for i in range(block_count if loops == 2 else 0):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""Qwen 3 VL, for text: Qwen 3."""

from qwen3 import layer

def model():
    check_heads()
    check_rope()
    check_sections()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""Qwen 3 VL MoE, for text: Qwen 3 MoE."""

from qwen3moe import layer

def model():
    check_heads()
    check_rope()
    check_experts()
    check_sections()
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return logits(linear(output, rms_norm(x, output_norm, rms_norm_epsilon)))

"""A Llama for embeddings."""

from mistral3 import layer

def model():
    check_heads()
    check_rope()
    check_rope_factors(rope_freqs)
    rope_params = rope_parameters()
    x = embed(token_embd, tokens)
    for i in range(block_count):
        x = layer(x, i, rope_params)
    return embedding(rms_norm(x, output_norm, rms_norm_epsilon))

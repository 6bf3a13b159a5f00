#!/usr/bin/env python3
"""Compare `ggmill measure` on a real model with the method of llama-perplexity in double precision, and with llama-perplexity itself.

usage: perplexity.py GGMILL DIRECTORY MODEL --text FILE [--chunks N] [--types NAME ...] [--llama-perplexity PROGRAM]

MODEL, a GGUF file, is turned into F32, and that into each type. For each of them:

* the logits that `ggmill measure --logits` writes are evaluated as llama-perplexity does (tools/perplexity/perplexity.cpp: the second half of each chunk, log-softmax, KL divergence
  from the F32), in double precision: perplexity, KL divergence (mean, median, 99 %, maximum) and the share of equal most likely tokens have to agree with what `measure` reports, to 1e-4;
* the F32 logits of libllama (llama-cpp-python 0.3.36, F32 keys and values) are evaluated the same way: what differs then is the arithmetic;
* PROGRAM, llama-perplexity built from llama-cpp-python's source, computes both by itself, with F32 keys and values. It stores the logits of the base in 16 bits.

Exit status 1 where the first differ by more than 1e-4. Needs numpy, and llama-cpp-python for the second.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

CONTEXT = 512
# Functions that libllama calls have to live as long as it does.
SILENT = []
NAMES = ["perplexity", "mean", "median", "99%", "max", "same top"]


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def evaluated(chunks, tokens, base):
    """The figures of chunks of logits; `base` are those of the base model."""
    losses, divergences, same = [], [], []
    first = CONTEXT // 2
    for number, logits in enumerate(chunks):
        logs = log_softmax(logits[first : CONTEXT - 1])
        following = tokens[number][first + 1 :]
        losses += list(-logs[np.arange(len(following)), following])
        if base is not None:
            others = log_softmax(base[number][first : CONTEXT - 1])
            divergences += list((np.exp(others) * (others - logs)).sum(-1))
            same += list(others.argmax(-1) == logs.argmax(-1))
    found = [float(np.exp(np.mean(losses)))]
    if base is not None:
        quantiles = [float(np.quantile(divergences, share)) for share in (0.5, 0.99, 1.0)]
        found += [float(np.mean(divergences)), *quantiles, float(np.mean(same))]
    return found


def libllama(path, tokens):
    """The logits of chunks, by libllama."""
    import ctypes

    import llama_cpp

    SILENT.append(llama_cpp.llama_log_callback(lambda *_: None))
    llama_cpp.llama_log_set(SILENT[-1], ctypes.c_void_p(0))
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers, parameters.use_extra_bufts = 0, False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = CONTEXT
    options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
    options.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    width = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    context = llama_cpp.llama_init_from_model(model, options)
    batch = llama_cpp.llama_batch_init(CONTEXT, 0, 1)
    for chunk in tokens:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        batch.n_tokens = CONTEXT
        for place, token in enumerate(chunk):
            batch.token[place], batch.pos[place], batch.n_seq_id[place], batch.logits[place] = int(token), place, 1, 1
            batch.seq_id[place][0] = 0
        if llama_cpp.llama_decode(context, batch) != 0:
            sys.exit(f"{path}: libllama does not run it")
        rows = ctypes.cast(llama_cpp.llama_get_logits(context), ctypes.POINTER(ctypes.c_float * (CONTEXT * width)))
        yield np.frombuffer(rows.contents, np.float32).reshape(CONTEXT, width).copy()
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)


def of_program(program, model, text, chunks, stored, is_base):
    """What llama-perplexity reports: perplexity, and for all but the base the KL divergence."""
    words = [program, "-m", model, "-c", str(CONTEXT), "-b", str(CONTEXT), "--chunks", str(chunks), "-t", "2"]
    words += ["-ctk", "f32", "-ctv", "f32", "-fa", "off", "--no-repack", "--kl-divergence-base", stored]
    words += ["-f", text] if is_base else ["--kl-divergence"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    out = done.stdout + done.stderr
    if done.returncode != 0:
        sys.exit(f"{program}: {out[-2000:]}")
    patterns = [r"Final estimate: PPL = ([\d.]+)"]
    if not is_base:
        patterns = [r"Mean PPL\(Q\)\s*:\s*([\d.]+)", r"Mean\s+KLD:\s*([-\d.]+)", r"Median\s+KLD:\s*([-\d.]+)", r"99.0%\s+KLD:\s*([-\d.]+)"]
        patterns += [r"Maximum KLD:\s*([-\d.]+)", r"Same top p:\s*([\d.]+)"]
    found = [re.search(pattern, out) for pattern in patterns]
    if not all(found):
        sys.exit(f"{program}: unknown output: {out[-3000:]}")
    numbers = [float(match.group(1)) for match in found]
    return numbers if is_base else [*numbers[:-1], numbers[-1] / 100]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ggmill")
    parser.add_argument("directory", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--types", nargs="+", default=["Q8_0", "Q5_1", "Q4_0", "IQ4_NL"])
    parser.add_argument("--llama-perplexity")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    run = lambda *words: subprocess.run([given.ggmill, *map(str, words)], check=True, capture_output=True, text=True).stdout
    base, failed = given.directory / "F32.gguf", False
    run("quantize", given.model, base, "F32", "--allow-requantize", "--force")
    ids = json.loads(run("tokenize", base, "--file", given.text, "--ids"))
    tokens = np.array(ids[: given.chunks * CONTEXT]).reshape(-1, CONTEXT)
    start = json.loads(run("tokenize", base, "", "--ids"))
    if start:
        # The token that begins a text begins each chunk.
        tokens[:, 0] = start[0]
    stored, ours, theirs = given.directory / "base.kld", None, None
    print(f"{given.model.name}, {given.text.name}, {len(tokens)} chunks of {CONTEXT} tokens\n")
    print(f"| type | by | {' | '.join(NAMES)} |\n|---|---|{'---:|' * len(NAMES)}")
    for kind in ["F32", *given.types]:
        path = given.directory / f"{kind}.gguf"
        if kind != "F32":
            run("quantize", base, path, kind, "--pure", "--force")
        logits = given.directory / "logits.npy"
        words = [] if kind == "F32" else ["--against", base]
        out = json.loads(run("measure", path, "--text", given.text, "--chunks", given.chunks, "--logits", logits, "--force", "--json", *words))
        measured = [out["perplexity"]["value"]]
        if kind != "F32":
            divergence, quantiles = out["comparison"]["kl_divergence"], out["comparison"]["kl_divergence"]["quantiles"]
            measured += [divergence["mean"]["value"], *(quantiles[share] for share in ("median", "99%", "max")), out["comparison"]["same_top"]["value"]]
        recorded = np.load(logits, mmap_mode="r").reshape(len(tokens), CONTEXT, -1)
        if kind == "F32":
            ours = np.array(recorded)
        rows = {"ggmill measure": measured, "its logits, in f64": evaluated(recorded, tokens, None if kind == "F32" else ours)}
        worst = max(abs(a / b - 1) if b else abs(a) for a, b in zip(*rows.values()))
        failed |= worst > 1e-4
        of_libllama = list(libllama(path, tokens))
        if kind == "F32":
            theirs = of_libllama
        rows["libllama's logits, in f64"] = evaluated(of_libllama, tokens, None if kind == "F32" else theirs)
        if given.llama_perplexity:
            rows["llama-perplexity"] = of_program(given.llama_perplexity, path, given.text, given.chunks, stored, kind == "F32")
        for name, numbers in rows.items():
            shown = [f"{number:.6g}" for number in numbers] + [""] * (len(NAMES) - len(numbers))
            print(f"| {kind} | {name} | {' | '.join(shown)} |", flush=True)
        print(f"{kind}: the first two differ by {worst:.1e}", file=sys.stderr, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

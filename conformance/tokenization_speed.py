"""How fast tokenizers are, beside llama.cpp's in the same run: a table in Markdown.

    python tokenization_speed.py WORKER LLAMA_CPP CACHE TEXTS [ROUNDS] [NAME ...]

WORKER is `tokenizer_worker` (`cargo build --release --package ggmill-bench --bin tokenizer_worker`), LLAMA_CPP a source tree of llama.cpp with its vocabularies,
CACHE the vocabularies that tokenization.py made (`target/conformance/tokens`), TEXTS the directory that tokenization_corpora.py wrote. A NAME is a vocabulary, or one
with a pre-tokenizer's name after a colon (`gpt-2:gpt-4o`). The interpreter needs llama-cpp-python 0.3.36.

Texts are tokenized in pieces of 8 KB. Times are of the thread on a processor, medians of the rounds: *cold* with a new tokenizer each time, *warm* again with the
same. llama.cpp tokenizes the first 512 KB of each text once, and its IDs must be ours.
"""

import ctypes
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PIECE = 8192
PART = 512 * 1024
TEXTS = ["english", "code", "mixed"]
NAMES = ["llama-bpe", "qwen2", "gpt-2", "gpt-2:gpt-4o", "gpt-2:tekken", "gpt-2:deepseek-v3", "gpt-2:default", "llama-spm", "gemma-4", "bert-bge", "t5", "rwkv"]


def pieces(text):
    while text:
        end = min(PIECE, len(text))
        while end < len(text) and text[end] & 0xC0 == 0x80:
            end -= 1
        yield text[:end]
        text = text[end:]


def reference(model, pre, texts):
    """MB/s and the IDs of the first part of each text, by libllama, and the milliseconds of loading."""
    import llama_cpp

    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    begin = time.thread_time()
    loaded = llama_cpp.llama_model_load_from_file(str(model).encode(), parameters)
    load = (time.thread_time() - begin) * 1e3
    if not loaded:
        sys.exit(f"{model}: libllama does not load it")
    vocab = llama_cpp.llama_model_get_vocab(loaded)
    room = (ctypes.c_int32 * (1 << 16))()
    results = []
    for path in texts:
        part = list(pieces(path.read_bytes()))[:PART // PIECE]
        ids, taken = [], 0.0
        for piece in part:
            begin = time.thread_time()
            count = llama_cpp.llama_tokenize(vocab, piece, len(piece), room, len(room), False, False)
            taken += time.thread_time() - begin
            ids += room[:count]
        results.append((sum(map(len, part)) / taken / 1e6, ids))
    return load, results


def with_pre(model, pre, out):
    """The same vocabulary with another pre-tokenizer's name, which is padded: keys stay where they are."""
    import gguf

    reader = gguf.GGUFReader(model)
    writer = gguf.GGUFWriter(out, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value = field.contents()
        kind = field.types[0]
        writer.add_key_value(field.name, pre if field.name == "tokenizer.ggml.pre" else value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def worker(program, model, rounds, texts, ids):
    output = subprocess.run([program, model, "-", str(rounds), str(PIECE), ids, *texts], check=True, capture_output=True, text=True).stdout
    lines = [line.split("\t") for line in output.splitlines()]
    return [(word, [int(number) for number in numbers]) for word, *numbers in lines]


def main(program, llama_cpp, cache, directory, rounds="7", *names):
    texts = [Path(directory) / f"{name}.txt" for name in TEXTS]
    print("| vocabulary | text | cold MB/s | warm MB/s | decode MB/s | llama.cpp MB/s | load ms | llama.cpp load ms | grows by MB | 17 bytes ns |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as place:
        for name in names or NAMES:
            base, _, pre = name.partition(":")
            model = Path(cache) / f"{base}.gguf"
            if not model.exists():
                model = Path(llama_cpp) / f"models/ggml-vocab-{base}.gguf"
            if pre:
                other = Path(place) / f"{base}-{pre}.gguf"
                with_pre(model, pre, other)
                model = other
            ids = Path(place) / "ids"
            found = worker(program, model, int(rounds), texts, ids)
            ours = struct.unpack(f"<{ids.stat().st_size // 4}I", ids.read_bytes())
            load, peers = reference(model, pre, texts)
            of = {word: numbers for word, numbers in found[:2] + found[-1:]}
            at = 0
            for number, (text, (speed, theirs)) in enumerate(zip(TEXTS, peers)):
                tokens, cold, warm, decode = (numbers for _, numbers in found[2 + 4 * number:6 + 4 * number])
                equal = list(ours[at:at + len(theirs)]) == [each & 0xFFFFFFFF for each in theirs]
                at += tokens[0]
                size = texts[number].stat().st_size
                rate = lambda times: f"{size * 1e3 / statistics.median(times):.0f}"
                first = number == 0
                print(
                    f"| {name} | {text} | {rate(cold)} | {rate(warm)} | {rate(decode)} | {speed:.1f}{'' if equal else ' **other IDs**'} |"
                    + (f" {statistics.median(of['load']) / 1e6:.1f} | {load:.0f} | {of['bytes'][0] / 1e6:.0f} | {statistics.median(of['call']):.0f} |" if first else " | | | |"),
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(__doc__) if len(sys.argv) < 5 else main(*sys.argv[1:])

"""How fast ggmill-run computes logits, beside libllama in the same run: a table in Markdown.

    python run_speed.py WORKER DIRECTORY [--rounds N] [--only MODEL ...] [--instructions NAME ...]

WORKER is `cargo build --release --package ggmill-run --example speed`. Models are made in DIRECTORY once: the shape of SmolLM2-135M (width 576, 30 blocks, 9
heads, 3 of them for keys and values, 49,152 tokens), and one with rows of whole blocks of K-quants (width 768, 16 blocks, 12 heads, 4 for keys and values, the same vocabulary),
with weights by chance, on which no time depends; libllama makes the other types of the F32. Each batch is 512 tokens, with the logits of all of them.

Each side runs in a process of its own, one after the other, ROUNDS times after one that is not counted, with as many threads as said. *Tokens per CPU-second* are those by the
processor time of all threads, medians of the rounds. *MB* is the most memory that the process had, with the pages of the file that it read. Both compute the same: the logits of
the last token are compared, NMSE. Needs llama-cpp-python 0.3.36, gguf 0.19.0 and numpy. Whichever instructions libllama was built with are those that it uses: for a like
comparison with AVX-512, run this by an interpreter whose llama-cpp-python was built with it (CMAKE_ARGS: GGML_NATIVE=OFF, GGML_AVX512, GGML_AVX512_VBMI,
GGML_AVX512_VNNI and GGML_AVX512_BF16 ON).
"""

import argparse
import ctypes
import datetime
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOKENS = 512
SHAPES = {
    "135M": {"width": 576, "blocks": 30, "heads": 9, "kv_heads": 3, "hidden": 1536, "vocabulary": 49152},
    "138M": {"width": 768, "blocks": 16, "heads": 12, "kv_heads": 4, "hidden": 2048, "vocabulary": 49152},
}
CASES = ["135M-F32", "135M-F16", "135M-Q8_0", "138M-F32", "138M-F16", "138M-Q8_0", "138M-Q4_K", "138M-Q6_K"]
# The numbers of llama_ftype.
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "Q4_K": 14, "Q6_K": 18, "IQ4_XS": 30}


SILENT = []


def quiet(llama_cpp):
    SILENT.append(llama_cpp.llama_log_callback(lambda *_: None))
    llama_cpp.llama_log_set(SILENT[-1], ctypes.c_void_p(0))


def made(directory, shape, kind):
    """The path of a model, which is made where it is not there."""
    path = directory / f"{shape}-{kind}.gguf"
    if path.exists():
        return path
    part = path.with_suffix(".part")
    if kind == "F32":
        write(part, **SHAPES[shape])
    else:
        import llama_cpp

        quiet(llama_cpp)
        source = made(directory, shape, "F32")
        parameters = llama_cpp.llama_model_quantize_default_params()
        parameters.ftype, parameters.pure, parameters.nthread = TYPES[kind], True, os.cpu_count()
        if llama_cpp.llama_model_quantize(str(source).encode(), str(part).encode(), ctypes.byref(parameters)) != 0:
            sys.exit(f"{path}: libllama does not quantize it")
    part.rename(path)
    return path


def write(path, width, blocks, heads, kv_heads, hidden, vocabulary):
    import gguf
    import numpy

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(blocks)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("no_vocab")
    chance = numpy.random.default_rng(1)
    kv = width // heads * kv_heads

    def add(name, columns, rows=None):
        if rows is None:
            numbers = 1 + 0.1 * chance.standard_normal(columns)
        else:
            numbers = chance.standard_normal((rows, columns)) / columns**0.5
        writer.add_tensor(name, numbers.astype(numpy.float32))

    add("token_embd.weight", width, vocabulary)
    for block in range(blocks):
        for name, columns, rows in [
            ("attn_norm", width, None), ("attn_q", width, width), ("attn_k", width, kv), ("attn_v", width, kv), ("attn_output", width, width),
            ("ffn_norm", width, None), ("ffn_gate", width, hidden), ("ffn_up", width, hidden), ("ffn_down", hidden, width),
        ]:
            add(f"blk.{block}.{name}.weight", columns, rows)
    add("output_norm.weight", width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tokens(vocabulary):
    state = 1
    for _ in range(TOKENS):
        state = (state * 1664525 + 1013904223) % 2**32
        yield (state >> 8) % vocabulary


def libllama(path, threads, rounds, logits):
    """What the worker of ggmill does, by libllama as it is when nothing is asked for."""
    import llama_cpp

    quiet(llama_cpp)
    parameters = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = TOKENS
    options.n_threads = options.n_threads_batch = threads
    context = llama_cpp.llama_init_from_model(model, options)
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    batch = llama_cpp.llama_batch_init(TOKENS, 0, 1)
    batch.n_tokens = TOKENS
    for place, token in enumerate(tokens(vocabulary)):
        batch.token[place], batch.pos[place], batch.n_seq_id[place], batch.logits[place] = token, place, 1, 1
        batch.seq_id[place][0] = 0
    cpu, wall = [], []
    for _ in range(rounds + 1):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        start, clock = time.process_time_ns(), time.perf_counter_ns()
        if llama_cpp.llama_decode(context, batch) != 0:
            sys.exit("libllama does not run it")
        llama_cpp.llama_synchronize(context)
        cpu.append(time.process_time_ns() - start)
        wall.append(time.perf_counter_ns() - clock)
    Path(logits).write_bytes(bytes(ctypes.string_at(llama_cpp.llama_get_logits_ith(context, TOKENS - 1), 4 * vocabulary)))
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024
    print("cpu", *cpu[1:], sep="\t")
    print("wall", *wall[1:], sep="\t")
    print("peak", peak, sep="\t")
    print("system", llama_cpp.llama_print_system_info().decode(), sep="\t")


def measured(command):
    answer = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
    return {word: found[word] if word == "system" else [int(number) for number in found[word].split("\t")] for word in found}


def main():
    if sys.argv[1] == "libllama":
        return libllama(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    import numpy

    parser = argparse.ArgumentParser()
    parser.add_argument("worker", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--instructions", nargs="+", default=["AVX2", "AVX-512"])
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    rows, system = [], ""
    for name in args.only or CASES:
        path = made(args.directory, *name.split("-"))
        for threads in args.threads:
            with tempfile.TemporaryDirectory() as scratch:
                theirs_at, ours_at = Path(scratch) / "theirs", Path(scratch) / "ours"
                theirs = measured([sys.executable, __file__, "libllama", path, threads, args.rounds, theirs_at])
                system = theirs["system"]
                expected = numpy.fromfile(theirs_at, "<f4").astype(float)
                for instructions in args.instructions:
                    ours = measured([args.worker, path, instructions, threads, 1, TOKENS, args.rounds, ours_at])
                    found = numpy.fromfile(ours_at, "<f4").astype(float)
                    error = ((found - expected) ** 2).sum() / (expected**2).sum()
                    speed = [TOKENS * 1e9 / statistics.median(side["cpu"]) for side in (ours, theirs)]
                    wall = [TOKENS * 1e9 / statistics.median(side["wall"]) for side in (ours, theirs)]
                    memory = [side["peak"][0] / 1e6 for side in (ours, theirs)]
                    row = f"| {name} | {threads} | {instructions} | {speed[0]:.0f} | {speed[1]:.0f} | {speed[0] / speed[1]:.2f} × | {wall[0]:.0f} | {wall[1]:.0f} | {memory[0]:.0f} | {memory[1]:.0f} | {error:.0e} |"
                    print(row, file=sys.stderr, flush=True)
                    rows.append(row)
    processor = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())[1]
    print(f"- Machine: {processor}, {os.cpu_count()} cores, linux; load {os.getloadavg()[0]:.0f}")
    print(f"- Date: {datetime.date.today()}; llama-cpp-python 0.3.36: {system.strip()}\n")
    print("| model | threads | instructions of ggmill | tokens per CPU-second, ggmill | libllama | times as fast | tokens per second, ggmill | libllama | MB, ggmill | libllama | NMSE |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()

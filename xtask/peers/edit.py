"""How long it takes to change a string key of a large model, here and with gguf's own tool.

    python edit.py GGMILL FOLDER

GGMILL is the binary. A model of 2 GB with a vocabulary of 128,000 tokens is made in FOLDER by gguf.GGUFWriter. Each way an edit can go is timed from the start
of the program to its end, files in the page cache, and its result held against the original: same tensors, same bytes. Then gguf-new-metadata does the same, once.
Prints the rows of a table in Markdown.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np

ROUNDS = 7
TOKENS = 128_000
LAYERS = 16
OLD = "A model of two gigabytes"


def generate(path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(OLD)
    writer.add_context_length(4096)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token {number}" for number in range(TOKENS)])
    writer.add_token_merges([f"to ken{number}" for number in range(TOKENS - 1000)])
    layer = np.random.default_rng(1).integers(0, 255, size=128 << 20, dtype=np.uint8).view(np.float16).reshape(-1, 8192)
    for number in range(LAYERS):
        writer.add_tensor(f"blk.{number}.ffn_up.weight", layer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return layer


def timed(*command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return time.perf_counter() - begin


def check(path, name, layer):
    reader = gguf.GGUFReader(path)
    assert reader.get_field("general.name").contents() == name, name
    assert len(reader.tensors) == LAYERS
    for tensor in (reader.tensors[0], reader.tensors[-1]):
        assert np.array_equal(tensor.data.view(np.uint8).reshape(-1), layer.view(np.uint8).reshape(-1)), tensor.name


def main():
    ggmill, folder = sys.argv[1], Path(sys.argv[2])
    model, copy = folder / "edit.gguf", folder / "edit-copy.gguf"
    layer = generate(model)
    # A file that is not on the disk yet would have to get there first: a sync of its header is a sync of all of it.
    os.sync()
    size = model.stat().st_size
    edit = lambda name: timed(ggmill, "edit", model, "--set", f"general.name={name}")
    same = [edit(name) for _ in range(ROUNDS) for name in ("a model of two gigabytes", OLD)]
    # Longer by more than the padding: blocks go in. The copy without room takes them out again, and is a way of its own.
    longer, copied = [], []
    for _ in range(ROUNDS):
        longer.append(edit("A longer name, for which the header has no room " * 4))
        if len(longer) < ROUNDS:
            copied.append(timed(ggmill, "edit", model, "--set", f"general.name={OLD}", "--unset", "ggmill.padding"))
    room = [edit(f"A longer name, for which the header has some room by now {'!' * number}") for number in range(ROUNDS)]
    new = "A name"
    edit(new)
    # From a small program: the memory of the one that starts another counts as the other's.
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)"
    command = [sys.executable, "-c", measure, ggmill, "edit", model, "--set", f"general.name={OLD}"]
    memory = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    edit(new)
    check(model, new, layer)
    peer = timed("gguf-new-metadata", "--general-name", new, model, copy)
    check(copy, new, layer)
    model.unlink()
    copy.unlink()

    print(f"{size:,} bytes; the header has {TOKENS:,} tokens; most resident memory of `ggmill edit`: {memory} MB")
    print()
    print("| | median | range | gguf-new-metadata takes |")
    print("|---|--:|--:|--:|")
    ways = [("in place, same length", same), ("in place, filler", room), ("in place, blocks inserted", longer), ("one copy", copied)]
    for what, times in ways:
        median = statistics.median(times)
        print(f"| {what} | {median * 1e3:.1f} ms | {min(times) * 1e3:.1f}–{max(times) * 1e3:.1f} ms | {peer / median:.0f}× |")
    print(f"| gguf-new-metadata (gguf 0.19.0), one run | {peer * 1e3:.0f} ms | | 1× |")


main()

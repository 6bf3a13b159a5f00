"""How long it takes to reshape a large file, beside copying it and beside the reference's tools.

    python write_speed.py GGMILL DIRECTORY ROUNDS MB SECONDS [LLAMA_CPP]

A file of so many MB is generated in DIRECTORY. Splitting and merging stand beside cp, beside cp and a sync of the copy, and beside llama-gguf-split; an edit beside
gguf-new-metadata; a change of byte order beside a copy that gguf-convert-endian changes in place and that is synced then; a hash beside llama-gguf-hash. The
tools in C++ are built of LLAMA_CPP, the sources of llama.cpp. All take turns in one run; what each makes is held against the original or read by gguf and the
C library. After so many SECONDS nobody has another turn. Prints each turn as it ends on standard error, and tables in Markdown. Fails when a command of ours
needs more memory than promised.
"""

import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np

from write import library, run

OLD = "A model of two gigabytes"

# What a command may have resident, beside its header.
MOST_MEMORY = 64


def generate(path, megabytes):
    """So many MB in 32 layers, with a vocabulary of 32,000 tokens."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(OLD)
    writer.add_token_list([f"token {number}" for number in range(32_000)])
    layer = np.random.default_rng(1).integers(0, 255, size=(megabytes << 20) // 32, dtype=np.uint8).view(np.float16).reshape(-1, 8192)
    for number in range(32):
        writer.add_tensor(f"blk.{number}.ffn_up.weight", layer)
        writer.add_tensor(f"blk.{number}.ffn_norm.weight", np.ones(1001, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# From a small program: the memory of the one that starts another counts as the other's.
STARTER = """
import os, resource, subprocess, sys, time
begin = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode)
"""

# Memory that a virtual machine has never used, or has given back, is slow at the first touch, and a copy touches as much as it has bytes. Whoever comes next is to
# find it in use, whatever was before.
TOUCH = "import numpy; numpy.ones({bytes}, dtype=numpy.uint8)"


def timed(command):
    """Seconds, and the most memory resident in MB."""
    done = subprocess.run([sys.executable, "-c", STARTER, *map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def reference_hash(sources, directory):
    """llama-gguf-hash, with the C library of llama-cpp-python."""
    tool, objects = directory / "llama-gguf-hash", []
    hashes = sources / "vendor/hash"
    for source in ("xxhash/xxhash.c", "sha1/sha1.c", "sha256/sha256.c"):
        objects.append(directory / (Path(source).stem + ".o"))
        # This one has a namespace, against names that others have too.
        language = ["-x", "c++"] if source.startswith("sha1") else []
        run("cc", *language, "-O3", "-DNDEBUG", "-I", hashes, "-I", hashes / "rotate-bits", "-I", sources / "vendor", "-c", hashes / source, "-o", objects[-1])
    include = ["-I", sources / "ggml/include", "-I", sources / "vendor", "-I", hashes]
    link = [library("ggml-base"), f"-Wl,-rpath,{library('ggml-base').parent}"]
    run("c++", "-O3", "-DNDEBUG", "-std=c++17", *include, sources / "examples/gguf-hash/gguf-hash.cpp", *objects, *link, "-o", tool)
    return tool


def reference_split(sources, directory):
    """llama-gguf-split, with the libraries of llama-cpp-python. What it says of its build is not theirs, so it is made up."""
    tool, build = directory / "llama-gguf-split", directory / "build-info.cpp"
    answers = {"int": ("0", ["llama_build_number"]), "const char *": ('""', ["llama_commit", "llama_compiler", "llama_build_target"])}
    build.write_text("".join(f"{kind} {name}(void) {{ return {answer}; }}\n" for kind, (answer, names) in answers.items() for name in names))
    include = [word for directory in ("include", "ggml/include", "common", "vendor") for word in ("-I", sources / directory)]
    link = [*map(library, ("llama", "ggml", "ggml-cpu", "ggml-base")), f"-Wl,-rpath,{library('llama').parent}"]
    run("c++", "-O3", "-DNDEBUG", "-std=c++17", *include, sources / "tools/gguf-split/gguf-split.cpp", build, *link, "-o", tool)
    return tool


def accepted(path, tensors):
    """Whether gguf and the C library read the header of a large file."""
    assert len(gguf.GGUFReader(path).tensors) == tensors, path
    lib = ctypes.CDLL(str(library("ggml-base")))

    class Init(ctypes.Structure):
        _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]

    lib.gguf_init_from_file.restype, lib.gguf_init_from_file.argtypes = ctypes.c_void_p, [ctypes.c_char_p, Init]
    lib.gguf_free.argtypes = [ctypes.c_void_p]
    found = lib.gguf_init_from_file(str(path).encode(), Init(True, None))
    assert found, f"the C library refuses {path}"
    lib.gguf_free(found)


class Bench:
    """The files, and who takes turns over them."""

    def __init__(self, ggmill, directory, rounds, megabytes, seconds, sources):
        self.ggmill, self.directory, self.rounds, self.seconds = ggmill, directory, rounds, seconds
        self.model, self.out, self.edited = directory / "write.gguf", directory / "out", directory / "edited.gguf"
        generate(self.model, megabytes)
        shutil.copy(self.model, self.edited)
        self.out.mkdir(exist_ok=True)
        self.limit = f"{megabytes // 4}M"
        run(ggmill, "split", self.model, directory / "shard", "--max-size", self.limit, "--force")
        self.shards = sorted(directory.glob("shard-*.gguf"))
        self.hash_tool, self.split_tool = (reference_hash(sources, directory), reference_split(sources, directory)) if sources else (None, None)
        if sources:
            lines = lambda *command: [line.split()[:2] for line in run(*command).stdout.splitlines() if line.startswith("xxh64")]
            assert lines(ggmill, "hash", self.model, "--xxh64") == lines(self.hash_tool, "--xxh64", self.model), "other hashes"

    def sides(self):
        """Each with how many turns it takes, what it reads, and its command in a turn: the slow ones do not need as many."""
        model, out, ggmill, few = self.model, self.out, self.ggmill, min(self.rounds, 2)
        names = ["a model of two gigabytes", OLD]
        theirs, python = out / "theirs.gguf", sys.executable
        convert_endian = f"cp '{model}' '{theirs}' && echo YES | '{python}' -m gguf.scripts.gguf_convert_endian '{theirs}' big && sync '{theirs}'"
        new_metadata = [python, "-m", "gguf.scripts.gguf_new_metadata", model, out / "new.gguf", "--general-name", names[0], "--force"]
        sides = {
            "cp": (self.rounds, [model], lambda _: ["cp", model, out / "copy.gguf"]),
            "cp, sync": (self.rounds, [model], lambda _: ["sh", "-c", f"cp '{model}' '{out}/copy.gguf' && sync '{out}/copy.gguf'"]),
            "ggmill split": (self.rounds, [model], lambda _: [ggmill, "split", model, out / "part", "--max-size", self.limit]),
            "ggmill merge": (self.rounds, self.shards, lambda _: [ggmill, "merge", self.shards[0], out / "merged.gguf"]),
            "ggmill edit, in place": (self.rounds, [], lambda turn: [ggmill, "edit", self.edited, "--set", f"general.name={names[turn % 2]}"]),
            "gguf-new-metadata": (1, [model], lambda _: new_metadata),
            "ggmill repack --endian big": (few, [model], lambda _: [ggmill, "repack", model, "-o", out / "big.gguf", "--endian", "big"]),
            "cp, gguf-convert-endian, sync": (1, [model], lambda _: ["sh", "-c", convert_endian]),
            "ggmill hash --xxh64": (few, [model], lambda _: [ggmill, "hash", model, "--xxh64"]),
        }
        if self.split_tool:
            sides["llama-gguf-split --split"] = (1, [model], lambda _: [self.split_tool, "--split", "--split-max-size", self.limit, model, out / "part"])
            sides["llama-gguf-split --merge"] = (1, self.shards, lambda _: [self.split_tool, "--merge", self.shards[0], out / "merged.gguf"])
            sides["llama-gguf-hash --xxh64"] = (1, [model], lambda _: [self.hash_tool, "--xxh64", model])
        return sides

    def measure(self):
        sides = self.sides()
        begin = time.perf_counter()
        self.times, self.memory = {name: [] for name in sides}, dict.fromkeys(sides, 0.0)
        touch = [sys.executable, "-c", TOUCH.format(bytes=self.model.stat().st_size * 5 // 4)]
        for turn in range(self.rounds):
            order = list(sides)
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                turns, reads, command = sides[name]
                if turn >= turns or turn > 0 and time.perf_counter() - begin > self.seconds:
                    continue
                shutil.rmtree(self.out)
                self.out.mkdir()
                os.sync()
                # Into the page cache, which the turns before may have pushed it out of.
                for path in reads:
                    with open(path, "rb") as file:
                        while file.read(1 << 24):
                            pass
                subprocess.run(touch, check=True)
                seconds, resident = timed(command(turn))
                self.times[name].append(seconds)
                self.memory[name] = max(self.memory[name], resident)
                print(f"{time.perf_counter() - begin:6.1f} s: {name}: {seconds:.3f} s, {resident:.0f} MB", file=sys.stderr, flush=True)
                self.hold(name)

    def hold(self, name):
        """What a command made is what others read."""
        if name == "ggmill split":
            parts = sorted(self.out.glob("part-*.gguf"))
            assert len(parts) == len(self.shards)
            for path in parts:
                accepted(path, len(gguf.GGUFReader(path).tensors))
        elif name == "ggmill merge":
            accepted(self.out / "merged.gguf", 64)
            run("cmp", self.out / "merged.gguf", self.model)
        elif name == "ggmill edit, in place":
            accepted(self.edited, 64)
        elif name == "ggmill repack --endian big":
            assert len(gguf.GGUFReader(self.out / "big.gguf").tensors) == 64

    def report(self):
        header = gguf.GGUFReader(self.model).data_offset / 1e6
        size = self.model.stat().st_size
        print(f"{size} bytes, header of {header:.1f} MB, {len(self.shards)} shards; load {os.getloadavg()[0]:.0f} at the end\n")
        print("| command | turns | median s | fastest s | slowest s | MB resident |\n|---|--:|--:|--:|--:|--:|")
        for name, taken in self.times.items():
            print(f"| {name} | {len(taken)} | {statistics.median(taken):.3f} | {min(taken):.3f} | {max(taken):.3f} | {self.memory[name]:.0f} |")
        goals = [
            ("ggmill split", "cp", "≤ 1.1 ×"),
            ("ggmill split", "cp, sync", "≤ 1.1 ×"),
            ("ggmill split", "llama-gguf-split --split", ""),
            ("ggmill merge", "cp", "≤ 1.1 ×"),
            ("ggmill merge", "cp, sync", "≤ 1.1 ×"),
            ("ggmill merge", "llama-gguf-split --merge", ""),
            ("ggmill edit, in place", "gguf-new-metadata", "≥ 100 times as fast"),
            ("ggmill hash --xxh64", "llama-gguf-hash --xxh64", "≥ 5 times as fast"),
            ("ggmill repack --endian big", "cp, gguf-convert-endian, sync", ""),
        ]
        print("\n| command | beside | medians | fastest | goal |\n|---|---|--:|--:|---|")
        for name, beside, goal in goals:
            if beside in self.times:
                ours, theirs = self.times[name], self.times[beside]
                print(f"| {name} | {beside} | {ratio(statistics.median(ours), statistics.median(theirs))} | {ratio(min(ours), min(theirs))} | {goal} |")
        over = [name for name, memory in self.memory.items() if name.startswith("ggmill") and memory > MOST_MEMORY + header]
        return f"more than {MOST_MEMORY} MB and the header resident: {', '.join(over)}" if over else None

    def clean(self):
        tools = [self.directory / name for name in ("llama-gguf-hash", "llama-gguf-split", "build-info.cpp", "xxhash.o", "sha1.o", "sha256.o")]
        for path in [self.model, self.edited, *self.shards, *tools]:
            path.unlink(missing_ok=True)
        shutil.rmtree(self.out)


def ratio(ours, theirs):
    return f"{theirs / ours:.1f} times as fast" if theirs > 1.5 * ours else f"{ours / theirs:.2f} ×"


def main():
    ggmill, directory, rounds, megabytes, seconds, *sources = sys.argv[1:]
    bench = Bench(Path(ggmill), Path(directory), int(rounds), int(megabytes), int(seconds), Path(sources[0]) if sources else None)
    bench.measure()
    fault = bench.report()
    bench.clean()
    sys.exit(fault)


if __name__ == "__main__":
    main()

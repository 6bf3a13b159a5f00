"""Compare the command with an older build of it, both in one run, in alternating order.

    python older.py OLDER NEWER DIRECTORY BUNDLED REAL ROUNDS MB [COMMAND ...]

Files are generated in DIRECTORY, with MB of weights in F16: one whose numbers are finite, and one in which every seventh number of every other tensor is infinite
or NaN. BUNDLED is the directory of real files in the repository; REAL is one of more real files, and rows about them are left out where it is absent. Files are
read once before. Prints medians of both builds, by the clock and by the processors, and the median of the ratios of each round; a command that takes little is run
several times in each round. Other programs disturb the clock; processor time says more then. COMMAND are rows of the table [default: all]. Exits with 1 where the
builds do not print the same, end with the same exit code and write the same bytes.
"""

import hashlib
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np


def generate(path, megabytes, has_others):
    """Sixteen tensors and a vocabulary of 32,000 tokens."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("A model to compare builds with")
    writer.add_token_list([f"token {number}" for number in range(32_000)])
    values = np.random.default_rng(1).normal(0, 0.03, (megabytes << 20) // 32).astype(np.float16).reshape(-1, 4096)
    others = values.copy()
    others.reshape(-1)[::14] = np.float16("inf")
    others.reshape(-1)[7::14] = np.float16("nan")
    for number in range(16):
        writer.add_tensor(f"blk.{number}.ffn_up.weight", others if has_others and number % 2 else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run(command, out):
    """The exit code, what is printed, and the hash of what is written."""
    out.unlink(missing_ok=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in (0, 1):
        sys.exit(f"{command}: {done.stderr.decode(errors='replace')}")
    written = hashlib.sha256(out.read_bytes()).hexdigest() if out.exists() else None
    return done.returncode, done.stdout, written


def timed(command, times):
    """Seconds by the clock and of processors, of one run of several."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds / times, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / times


def commands(model, others, out, bundled, real):
    """The rows of the table: a name, and the words of a command."""
    yield "inspect", ["inspect", model]
    yield "check", ["check", model]
    yield "check --data", ["check", "--data", model]
    yield "check --data, some numbers not finite", ["check", "--data", others]
    yield "hash --xxh64", ["hash", "--xxh64", model]
    yield "quantize Q4_K_M", ["quantize", model, out, "Q4_K_M", "--force"]
    yield "quantize Q8_0", ["quantize", model, out, "Q8_0", "--force"]
    yield "convert, 260,032 weights", ["convert", bundled / "tinystories260K", out, "--type", "Q8_0", "--force"]
    for name, file in ("vocabulary of 7.8 MB", "vocab-gguf/ggml-vocab-llama-bpe.gguf"), ("BERT of 19.2 MB", "gguf/all-MiniLM-L6-v2.Q3_K_S.gguf"):
        file = real / file
        if not file.exists():
            print(f"left out: {file} is absent", file=sys.stderr)
            continue
        yield f"inspect --json, {name}", ["inspect", "--json", file]
        yield f"check --data, {name}", ["check", "--data", file]
        yield f"hash --xxh64, {name}", ["hash", "--xxh64", file]
        yield f"repack --endian big, {name}", ["repack", "--endian", "big", file, "--output", out, "--force"]
        yield f"edit in a copy, {name}", ["edit", file, "--set", "general.name=Other", "--output", out, "--force"]


def main():
    older, newer, directory, bundled, real, rounds, megabytes, *names = sys.argv[1:]
    directory, rounds = Path(directory), int(rounds)
    model, others, out = directory / "older.gguf", directory / "older-others.gguf", directory / "older-out.gguf"
    rows = dict(commands(model, others, out, Path(bundled), Path(real)))
    if unknown := set(names) - set(rows):
        sys.exit(f"no row {', '.join(unknown)}; there are {', '.join(rows)}")
    rows = {name: list(map(str, words)) for name, words in rows.items() if not names or name in names}
    for path, has_others in (model, False), (others, True):
        if any(str(path) in words for words in rows.values()):
            generate(path, int(megabytes), has_others)
    print(f"| command | rounds | older | newer | newer / older | processors, older | newer | newer / older |\n|---|{'--:|' * 7}")
    differing = []
    for name, words in rows.items():
        # What is read comes into the page cache.
        if run([older, *words], out) != run([newer, *words], out):
            differing.append(name)
        # Half a second at least, so that the ticks of processor time are fine enough.
        times = max(1, round(0.5 / max(timed([newer, *words], 1)[0], 1e-3)))
        found = {older: [], newer: []}
        for turn in range(rounds):
            for program in (older, newer) if turn % 2 else (newer, older):
                found[program].append(timed([program, *words], times))
        cells = []
        for which in (0, 1):
            before, after = ([taken[which] for taken in found[program]] for program in (older, newer))
            ratio = statistics.median(b / a if a else 1.0 for a, b in zip(before, after))
            cells.append(f"{statistics.median(before) * 1e3:.1f} ms | {statistics.median(after) * 1e3:.1f} ms | {ratio:.2f}")
        print(f"| {name} | {rounds} | {' | '.join(cells)} |", flush=True)
    for path in (model, others, out):
        path.unlink(missing_ok=True)
    print(f"\nload {os.getloadavg()[0]:.0f} at the end")
    if differing:
        sys.exit(f"the builds do not do the same: {', '.join(differing)}")


if __name__ == "__main__":
    main()

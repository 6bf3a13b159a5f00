"""Compare the command with an older build of it, both in one run, in alternating order.

    python older.py OLDER NEWER DIRECTORY ROUNDS MB [COMMAND ...]

Files are generated in DIRECTORY, with MB of weights in F16: one whose numbers are finite, and one in which every seventh number of every other tensor is infinite
or NaN. They are read once before. Prints medians of both builds, by the clock and by the processors, and the median of the ratios of each round. Other programs
disturb the clock; processor time says more then. COMMAND are rows of the table [default: all]. What either build prints must be the same, and the same exit code.
"""

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


def timed(command):
    """Seconds by the clock and of processors, and what it said."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(f"{command}: {done.stderr.decode(errors='replace')}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, (done.returncode, done.stdout)


def main():
    older, newer, directory, rounds, megabytes, *names = sys.argv[1:]
    directory = Path(directory)
    model, others, out = directory / "older.gguf", directory / "older-others.gguf", directory / "older-out.gguf"
    generate(model, int(megabytes), False)
    generate(others, int(megabytes), True)
    commands = {
        "inspect": ["inspect", model],
        "check": ["check", model],
        "check --data": ["check", "--data", model],
        "check --data, some numbers not finite": ["check", "--data", others],
        "hash --xxh64": ["hash", "--xxh64", model],
        "quantize Q4_K_M": ["quantize", model, out, "Q4_K_M", "--force"],
        "quantize Q8_0": ["quantize", model, out, "Q8_0", "--force"],
    }
    if unknown := set(names) - set(commands):
        sys.exit(f"no row {', '.join(unknown)}; there are {', '.join(commands)}")
    print(f"| command | rounds | older | newer | newer / older | processors, older | newer | newer / older |\n|---|{'--:|' * 7}")
    for name, words in commands.items():
        if names and name not in names:
            continue
        found, said = {older: [], newer: []}, {}
        for program in (older, newer):
            # What is read comes into the page cache.
            *_, said[program] = timed([program, *words])
        if said[older] != said[newer]:
            print(f"{name}: the builds do not say the same", file=sys.stderr)
        for turn in range(int(rounds)):
            for program in (older, newer) if turn % 2 else (newer, older):
                found[program].append(timed([program, *words])[:2])
        cells = []
        for which in (0, 1):
            before, after = ([taken[which] for taken in found[program]] for program in (older, newer))
            ratio = statistics.median(b / a if a else 1.0 for a, b in zip(before, after))
            cells.append(f"{statistics.median(before) * 1e3:.0f} ms | {statistics.median(after) * 1e3:.0f} ms | {ratio:.2f}")
        print(f"| {name} | {rounds} | {' | '.join(cells)} |", flush=True)
    for path in (model, others, out):
        path.unlink(missing_ok=True)
    print(f"\nload {os.getloadavg()[0]:.0f} at the end")


if __name__ == "__main__":
    main()

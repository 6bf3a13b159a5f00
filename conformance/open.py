"""Compares the speed of opening files: every reader in one run, on the same files, in alternating turns.

    python3 open.py WORKER PYTHON [FILE]... [--rounds N] [--slow-rounds N] [--no-candle] [--record] [--default FILE...]

WORKER is open_worker of ggmill-bench, PYTHON the interpreter that runs open_worker.py (gguf, and the C reader of llama-cpp-python). candle-core is built here.
Files are those of --default if none is named. Each reader has its turn in each round, so that other load on the machine meets them all. Readers must agree on
the number of metadata entries and tensors. --record writes the table into crates/ggmill-bench/RESULTS.md.
"""

import argparse
import os
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CANDLE = ROOT / "conformance/candle"
RESULTS = ROOT / "crates/ggmill-bench/RESULTS.md"
BEGIN, END = "<!-- written by `python3 conformance/run.py open --record` -->\n", "<!-- end -->\n"
# Name, title and worker of each reader; the first is ours and the measure of the others.
READERS = [
    ("ggmill", "ggmill (map)", "rust"), ("walk", "bare walk", "rust"), ("ggmill-read", "ggmill (read)", "rust"), ("c", "C reader", "python"),
    ("candle", "candle-core", "candle"), ("gguf-py", "gguf (Python)", "python"),
]  # fmt: skip
SLOW = "gguf-py"
# Nanoseconds of a turn, and how often a file is opened in one.
TURN, FEWEST, MOST = 400_000_000, 4, 200


class Worker:
    """A process that opens files on request and reports the time of each."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().rstrip("\n") or sys.exit(f"{self.process.args}: ended without an answer to {line!r}")


def measure(path, options, workers):
    """Returns the times of each reader in ascending order, or None where a reader refuses the file or is left out."""
    path.read_bytes()  # into the page cache
    times = {name: [] if side in workers else None for name, _, side in READERS}
    counts = None
    for number in range(options.rounds):
        order = READERS[number % len(READERS) :] + READERS[: number % len(READERS)]
        for name, title, side in order if number % 2 == 0 else order[::-1]:
            taken = times[name]
            if taken is None or name == SLOW and number >= options.slow_rounds:
                continue
            opens = 1 if name == SLOW else min(max(TURN // max(min(taken, default=TURN), 1), FEWEST), MOST)
            answer = workers[side].ask(f"{name}\t{opens}\t{path}")
            if answer.startswith("error: "):
                times[name] = None
                continue
            entries, tensors, *nanoseconds = map(int, answer.split("\t"))
            counts = counts or (entries, tensors)
            if counts != (entries, tensors):
                sys.exit(f"{path}: {title} finds {entries} metadata entries and {tensors} tensors, others {counts}")
            # The first half pays for caches that the reader before filled, and for a processor that has to wake up.
            taken += nanoseconds[len(nanoseconds) // 2 :]
    return {name: sorted(taken) if taken else None for name, taken in times.items()}


def cell(times, name, workers, side):
    """Returns the median, with its ratio to ours."""
    if side not in workers:
        return "–"
    if times[name] is None:
        return "refuses"
    time, ours = (taken[len(taken) // 2] for taken in (times[name], times["ggmill"]))
    return f"{time / 1e6:.3f} ms" + ("" if name == "ggmill" else f" ({time / ours:.2f}×)")


def output(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def head(options, versions):
    """Returns what a reader has to know to reproduce the table."""
    measured = ["crates/ggmill-core/src", "crates/ggmill-io/src", "crates/ggmill-bench/src"]
    commit = output("git", "log", "-1", "--format=%h", "--", *measured) + (" with changes" if output("git", "status", "--porcelain", "--", *measured) else "")
    model = re.search(r"model name.*?: (.*)", Path("/proc/cpuinfo").read_text())
    candle = re.search(r'name = "candle-core"\nversion = "(.*)"', (CANDLE / "Cargo.lock").read_text())
    return f"""- Machine: {model.group(1) if model else "unknown"}, {os.cpu_count()} cores, {sys.platform}; load before the end {os.getloadavg()[0]:.2f}
- Date: {datetime.now(timezone.utc):%F}; ggmill at {commit}; {output("rustc", "--version")}
- Peers: {versions}; candle-core {candle.group(1)}
- Command: `python3 conformance/run.py open --rounds {options.rounds} --slow-rounds {options.slow_rounds}`
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("worker")
    parser.add_argument("python")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=12, help="turns of each reader")
    parser.add_argument("--slow-rounds", type=int, default=1, help="turns of gguf, which takes half a minute for the largest file")
    parser.add_argument("--no-candle", action="store_true", help="leave out candle-core, which takes minutes to build")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--default", nargs="*", type=Path, default=[])
    options = parser.parse_intermixed_args()
    workers = {"rust": Worker(options.worker), "python": Worker(options.python, ROOT / "conformance/open_worker.py")}
    if not options.no_candle:
        manifest = ["--release", "--locked", "--manifest-path", CANDLE / "Cargo.toml"]
        subprocess.run(["cargo", "build", *manifest], check=True)
        workers["candle"] = Worker("cargo", "run", "--quiet", *manifest)
    titles = [title for _, title, _ in READERS]
    rows = [f"| file | MB | {' | '.join(titles)} |", "|---|--:|" + "--:|" * len(READERS)]
    for path in options.files or options.default:
        times = measure(path, options, workers)
        rows.append(f"| {path.name} | {path.stat().st_size / 1e6:.1f} | {' | '.join(cell(times, name, workers, side) for name, _, side in READERS)} |")
        print(rows[-1], flush=True)
    text = "\n".join([head(options, workers["python"].ask("versions")), *rows, ""])
    print(f"\n{text}")
    if options.record:
        before, rest = RESULTS.read_text().split(BEGIN)
        RESULTS.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()

"""What a model that does not fit in memory costs ggmill-run: its time under a limit of half the file, beside that without a limit, and libllama's under the same limit.

    python run_bounded.py WORKER DIRECTORY [--model 138M-F32] [--texts N ...] [--rounds N] [--share S] [--no-libllama]

WORKER and the models in DIRECTORY are those of run_speed.py. The limit is one of a control group (version 1 or 2, below that of this process, which has to be allowed to make
one: root in most containers) and counts pages of files that the process reads, as long as no other process has read them before; so they are dropped first (posix_fadvise).
Each text has 512 tokens. Printed: seconds on the clock of a round with the limit and without, by turns, medians; their ratio; processor time; bytes read from the disk in a round, by the
process's own count; the most memory that the group had.
"""

import argparse
import datetime
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from run_speed import TOKENS, made


class Group:
    """A control group of its own, with a limit in bytes; removed at the end."""

    def __init__(self, limit):
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        old = [path for _, controllers, path in lines if "memory" in controllers.split(",")]
        if old:
            parent, names = Path("/sys/fs/cgroup/memory") / old[0].lstrip("/"), ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
        else:
            own = next(path for number, _, path in lines if number == "0")
            parent, names = Path("/sys/fs/cgroup") / own.lstrip("/"), ("memory.max", "memory.peak")
        self.path = parent / f"ggmill-{os.getpid()}"
        self.peak_name = names[1]
        self.path.mkdir()
        try:
            (self.path / names[0]).write_text(str(limit))
        except OSError:
            self.path.rmdir()
            raise

    def join(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        return int((self.path / self.peak_name).read_text())

    def remove(self):
        self.path.rmdir()


def forget(path):
    """Drops the pages of a file from memory."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measured(command, path, limit):
    """What a worker says, with a limit or without, what it reads from the disk for each of its rounds and the peak of the group; None where the limit ends it."""
    forget(path)
    if limit is None:
        # All of it is in memory before.
        Path(path).read_bytes()
    group = None if limit is None else Group(limit)
    read = 0
    try:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=group and group.join
        )
        answer = ""
        for line in process.stdout:
            answer += line
            # Printed when all rounds are done.
            if line.startswith("cpu"):
                counts = Path(f"/proc/{process.pid}/io").read_text()
                read = int(re.search(r"read_bytes: (\d+)", counts)[1])
        if process.wait() != 0:
            return None
        peak = group.peak() if group else None
    finally:
        if group:
            group.remove()
    found = dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
    numbers = {word: [int(number) for number in found[word].split("\t")] for word in ("cpu", "wall")}
    return numbers | {"read": read, "group": peak}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("worker", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", default="138M-F32")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--no-libllama", action="store_true")
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    path = made(args.directory, *args.model.split("-"))
    limit = int(path.stat().st_size * args.share)
    processor = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())[1]
    print(f"- Machine: {processor}, {os.cpu_count()} cores, linux; load {os.getloadavg()[0]:.0f}")
    print(f"- Date: {datetime.date.today()}; {args.model}, {path.stat().st_size / 1e6:.0f} MB; limit {limit / 1e6:.0f} MB\n")
    print("| program | tokens | s, without limit | s, with limit | times as long | CPU-s, without limit | with limit | MB read in a round | MB of the group at most |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as scratch:
        logits = Path(scratch) / "logits"
        sides = [(f"ggmill-run, {texts} texts", texts, [args.worker, path, "-", 1, texts, TOKENS, 1, logits]) for texts in args.texts]
        if not args.no_libllama:
            script = Path(__file__).parent / "run_speed.py"
            sides.append(("libllama", 1, [sys.executable, script, "libllama", path, 1, 1, logits]))
        for name, texts, command in sides:
            free, bounded = [], []
            for _ in range(args.rounds):
                free.append(measured(command, path, None))
                bounded.append(measured(command, path, limit))
            if None in bounded or None in free:
                print(f"| {name} | {texts * TOKENS} | | ended by the limit | | | | | |", flush=True)
                continue
            wall, cpu = [
                [statistics.median(side[word][0] for side in both) / 1e9 for both in (free, bounded)] for word in ("wall", "cpu")
            ]
            # Each process has a round that is not counted, which reads the file too.
            read = statistics.median(side["read"] for side in bounded) / 2 / 1e6
            peak = max(side["group"] for side in bounded) / 1e6
            print(
                f"| {name} | {texts * TOKENS} | {wall[0]:.2f} | {wall[1]:.2f} | {wall[1] / wall[0]:.2f} × | {cpu[0]:.2f} | {cpu[1]:.2f} | {read:.0f} | {peak:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

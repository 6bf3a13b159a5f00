"""Speed and memory of ggmill and of gguf from Python, both in one run.

    python_speed.py VOCABULARY WORK [--turns N] [--only PART…]

in an environment that has gguf, numpy, and ggmill as it is published (`cargo xtask python --release`). VOCABULARY is a vocabulary of many tokens, such as
ggml-vocab-gemma-4.gguf; WORK a directory on a disk with 7 GB of room. PART is open, dequantize, write or key. The answer is Markdown, for
crates/ggmill-bench/RESULTS.md.

- open: processor time of the thread for making a reader, the kernel's work included, each side in a process of its own; the file is in the page cache.
- dequantize: time of 16 million values, bit for bit the same on both sides; `threads=1` is one thread on both.
- write: time from the first array to a complete file of 2 GB, and the most memory the process had. The 64 arrays of 32 MiB are made on the way, which takes as long
  on all sides. gguf neither waits for the disk nor writes whole or not at all; a line with "on the disk" has waited.
- key: one metadata value of that file, none of which is in the page cache before: what is there after it.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

PARTS = ("open", "dequantize", "write", "key")
TENSORS, BYTES = 64, 32 << 20


def memory() -> float:
    """The most memory the process had, in MiB. `ru_maxrss` would count the parent's, which a
    process has for a moment when it is started.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    sys.exit("no VmHWM in /proc/self/status: not Linux")


def opener(side: str):
    if side == "gguf":
        import gguf

        return gguf.GGUFReader
    import ggmill
    import ggmill.gguf

    return {"ggmill.open": ggmill.open, "ggmill.open, mmap=False": lambda path: ggmill.open(path, mmap=False), "ggmill.gguf": ggmill.gguf.GGUFReader}[side]


def do_open(side: str, path: str, times: int) -> dict:
    make = opener(side)
    before, taken = memory(), []
    for _ in range(times):
        begin = time.thread_time_ns()
        made = make(path)
        taken.append(time.thread_time_ns() - begin)
        del made
    # The second half: the first turns also warm up.
    return {"seconds": statistics.median(taken[len(taken) // 2 :]) / 1e9, "memory": memory() - before}


def arrays():
    import numpy as np

    # Made without more memory than it has, so that what is measured is what writing takes.
    base = np.arange(BYTES // 2, dtype=np.uint16).view(np.float16).reshape(-1, 4096)
    for number in range(TENSORS):
        yield f"blk.{number}.ffn_up.weight", base, number


def made(base, number):
    import numpy as np

    return (base.view(np.uint16) ^ np.uint16(number)).view(np.float16)


def do_write(side: str, path: str) -> dict:
    import numpy as np  # noqa: F401

    name, _, options = side.partition(", ")
    begin = time.perf_counter()
    if name == "ggmill.write":
        import ggmill

        tensors = {name: ggmill.Deferred("F16", base.shape, lambda base=base, number=number: made(base, number)) for name, base, number in arrays()}
        ggmill.write(path, {"general.architecture": "llama"}, tensors, overwrite=True)
    else:
        if name == "gguf":
            import gguf
        else:
            import ggmill.gguf as gguf
        writer = gguf.GGUFWriter(path, "llama", use_temp_file="temporary file" in options)
        for tensor, base, number in arrays():
            writer.add_tensor(tensor, made(base, number))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        if "on the disk" in options:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
    return {"seconds": time.perf_counter() - begin, "memory": memory()}


def do_key(side: str, path: str) -> dict:
    make = opener(side)
    begin = time.perf_counter()
    found = make(path)
    if side.startswith("ggmill.open"):
        value = found.metadata["general.architecture"]
    else:
        value = found.fields["general.architecture"].contents()
    taken = time.perf_counter() - begin
    assert value == "llama"
    return {"seconds": taken}


def ask(*words) -> dict:
    done = subprocess.run([sys.executable, __file__, "--do", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def table(head: list[str], rows: list[list]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|---|" + "--:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def shown(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def part_open(vocabulary: str) -> None:
    Path(vocabulary).read_bytes()
    results = {side: ask("open", side, vocabulary, times) for side, times in (("ggmill.open", 400), ("gguf", 1), ("ggmill.gguf", 100), ("ggmill.open, mmap=False", 100))}
    rows = []
    for side, result in results.items():
        ratio = results["gguf"]["seconds"] / result["seconds"]
        rows.append([side, shown(result["seconds"]), f"{ratio:,.0f} ×", f"{result['memory']:,.0f}"])
    table([f"opens {Path(vocabulary).name}", "processor time", "times as fast as gguf", "MB more after it"], rows)


def part_dequantize(turns: int) -> None:
    import ggmill
    import gguf
    import numpy as np

    rows = []
    for name in ("Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "IQ2_XS"):
        kind = gguf.GGMLQuantizationType[name]
        values = np.random.default_rng(2).standard_normal((256, 4096), np.float32)
        weights = np.ones(4096, np.float32) if name.startswith("IQ2") else None
        blocks = np.tile(ggmill.quants.quantize(values, name, imatrix=weights), (16, 1))
        sides = {
            "gguf": lambda: gguf.quants.dequantize(blocks, kind),
            "ggmill": lambda: ggmill.quants.dequantize(blocks, name),
            "ggmill, threads=1": lambda: ggmill.quants.dequantize(blocks, name, threads=1),
        }
        same = {side: work().view(np.uint32) for side, work in sides.items()}
        assert all(np.array_equal(same["gguf"], found) for found in same.values()), name
        del same
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(turns):
            for side, work in sides.items():
                begin = time.perf_counter()
                work()
                taken[side].append(time.perf_counter() - begin)
        medians = {side: statistics.median(times) for side, times in taken.items()}
        ratios = [f"{medians['gguf'] / medians[side]:,.1f} ×" for side in ("ggmill", "ggmill, threads=1")]
        rows.append([name, *(shown(medians[side]) for side in sides), *ratios])
    table(["16.8 million values", "gguf", "ggmill", "ggmill, threads=1", "times as fast", "with one thread"], rows)


def part_write(work: Path, turns: int) -> None:
    sides = ("gguf", "gguf, on the disk", "gguf, temporary file", "ggmill.gguf", "ggmill.write")
    taken: dict[str, list[dict]] = {side: [] for side in sides}
    path = work / "written.gguf"
    for _ in range(turns):
        for side in sides:
            path.unlink(missing_ok=True)
            os.sync()
            taken[side].append(ask("write", side, path))
    rows = []
    for side, results in taken.items():
        times = [result["seconds"] for result in results]
        rows.append([side, f"{statistics.median(times):.2f}", f"{min(times):.2f}", f"{max(times):.2f}", f"{max(result['memory'] for result in results):,.0f}"])
    table([f"writes {TENSORS * BYTES:,} bytes", "median s", "fastest s", "slowest s", "MB at most"], rows)


def part_key(work: Path) -> None:
    path = work / "key.gguf"
    ask("write", "ggmill.write", path)
    rows = []
    for side in ("ggmill.open", "ggmill.open, mmap=False", "ggmill.gguf", "gguf"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = resident(path)
        result = ask("key", side, path)
        rows.append([side, shown(result["seconds"]), f"{before:,}", f"{resident(path):,}"])
    table([f"one key of {path.stat().st_size:,} bytes", "time", "bytes in the page cache before", "and after"], rows)
    path.unlink()


def resident(path: Path) -> int:
    done = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("vocabulary")
    parser.add_argument("work", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    import ggmill
    import numpy

    import importlib.metadata

    processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    print(f"- Machine: {processor}, {os.cpu_count()} cores, {sys.platform}; load {os.getloadavg()[0]:.2f}")
    print(f"- Date: {date.today()}; ggmill {ggmill.__version__}; gguf {importlib.metadata.version('gguf')}, numpy {numpy.__version__}, Python {platform.python_version()}")
    print(f"- Command: `python3 conformance/run.py python-speed --turns {args.turns}`")
    print()
    args.work.mkdir(parents=True, exist_ok=True)
    if "open" in args.only:
        part_open(args.vocabulary)
    if "dequantize" in args.only:
        part_dequantize(args.turns)
    if "write" in args.only:
        part_write(args.work, args.turns)
    if "key" in args.only:
        part_key(args.work)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--do"]:
        what, side, path, *rest = sys.argv[2:]
        print(json.dumps({"open": do_open, "write": do_write, "key": do_key}[what](side, path, *map(int, rest))))
    else:
        main()

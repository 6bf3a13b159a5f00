"""Compare the speed and the bytes of ggmill's codecs with the reference's, in one run: `python3 conformance/run.py quant`.

usage: quant.py WORKER [--type NAME ...] [--work quantize|importance|dequantize ...] [--isa NAME] [--rounds N] [--all-isas]

WORKER is quant_worker of ggmill-bench. Both sides use one thread and take turns with the same rows, close to normal as weights are; each time is that of the thread on
a processor, so that other programs matter less. What both give must be the same, byte for byte. The reference is libggml-base of llama-cpp-python.
"""

import argparse
import ctypes
import datetime
import importlib.metadata
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

from quant_vectors import NO_DEQUANTIZE, ROW_FUNCTION, ROW_FUNCTION_ONLY, TYPES, Reference, bell, weights

ROW = 4096
# Rows of a turn: what the reference does in some hundredths of a second.
SLOW = {"IQ1_S": 2, "IQ1_M": 2, "IQ2_XXS": 1, "IQ2_XS": 1, "IQ2_S": 2, "IQ3_XXS": 1, "IQ3_S": 2}
MIDDLING = {"IQ4_NL": 8, "IQ4_XS": 8, "Q2_K": 24, "Q4_K": 24, "Q5_K": 24, "Q6_K": 48, "Q3_K": 64, "NVFP4": 64}
NAMES = {"quantize": "quantize", "importance": "quantize with importance", "dequantize": "dequantize"}


def rows_of(name, work):
    if work == "dequantize":
        return 256
    rows = SLOW.get(name) or MIDDLING.get(name) or 256
    return max(rows // 2, 1) if work == "importance" and name not in SLOW else rows


class Ours:
    def __init__(self, worker):
        self.process = subprocess.Popen([worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        if not answer or answer.startswith("error: "):
            raise SystemExit(f"{' '.join(map(str, words))}: {answer or 'no answer'}")
        return answer.split("\t")


def reference_call(reference, name, work, rows, importance, blocks):
    """A function without arguments that does the work once, and what it writes to."""
    number, elements, size, _ = TYPES[name]
    if work == "dequantize":
        out = np.zeros(len(blocks) // size * elements, np.float32)
        source = np.frombuffer(blocks, np.uint8).copy()
        pointer = ctypes.cast(reference.lib.dequantize_row_q8_K, ctypes.c_void_p).value if name == "Q8_K" else reference.traits(number).to_float
        function = ROW_FUNCTION(pointer)
        return lambda: function(source.ctypes.data, out.ctypes.data, out.size), out
    out = np.zeros(rows.size // elements * size, np.uint8)
    if name in ROW_FUNCTION_ONLY:
        function = getattr(reference.lib, f"quantize_row_{name.lower().replace('_k', '_K')}_ref")
        function.restype, function.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        return lambda: function(rows.ctypes.data, out.ctypes.data, rows.size), out
    pointer = None if importance is None else importance.ctypes.data
    function = reference.lib.ggml_quantize_chunk
    return lambda: function(number, rows.ctypes.data, out.ctypes.data, 0, rows.shape[0], rows.shape[1], pointer), out


def measure(ours, reference, directory, name, work, isas, rounds):
    number, elements, size, _ = TYPES[name]
    count = rows_of(name, work)
    # What weights look like: a bell, some columns wider than others.
    rows = (bell(number, count * ROW) * np.float32(0.0625)).reshape(count, ROW) * (1 + weights("random", 3, ROW))
    rows = np.ascontiguousarray(rows, np.float32)
    importance = weights("random", 1, ROW) if work == "importance" or reference.requires_importance(number) else None
    blocks = b""
    if work == "dequantize":
        # Many rows that repeat a few: making the blocks is not what is measured.
        few = SLOW.get(name, 32)
        blocks = reference.quantize(name, rows[:few], importance) * -(-count // few)
    call, out = reference_call(reference, name, work, rows, importance, blocks)
    paths = [directory / part for part in ("input", "weights", "output")]
    paths[0].write_bytes(blocks if work == "dequantize" else rows.tobytes())
    if importance is not None:
        paths[1].write_bytes(importance.tobytes())
    words = ["dequantize" if work == "dequantize" else "quantize", name]
    places = [paths[0], ROW, paths[1] if importance is not None and work != "dequantize" else "-"]
    theirs, mine = [], {isa: [] for isa in isas}
    for _ in range(rounds):
        for _ in range(3):
            begin = time.thread_time_ns()
            call()
            theirs.append(time.thread_time_ns() - begin)
        for isa in isas:
            mine[isa] += map(int, ours.ask(*words, isa, *places, 5, paths[2])[1:])
    for isa in isas:
        ours.ask(*words, isa, *places, 1, paths[2])
        if paths[2].read_bytes() != out.tobytes():
            raise SystemExit(f"{name} {work} {isa}: the bytes differ")
    values = out.size if work == "dequantize" else rows.size
    speed = lambda times: values / statistics.median(times) * 1000
    return speed(theirs), {isa: speed(times) for isa, times in mine.items()}


def machine():
    cpus = pathlib.Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown processor")
    loads = pathlib.Path("/proc/loadavg")
    return f"{model}; load at the end {loads.read_text().split()[0] if loads.exists() else 'unknown'}"


def cases(reference, works, types):
    """What both sides can do, of these kinds of work with these types."""
    for work in works:
        for name in types:
            if name == "F32" or work == "importance" and not TYPES[name][3] or work == "dequantize" and name in NO_DEQUANTIZE:
                continue
            if work == "quantize" and reference.requires_importance(TYPES[name][0]):
                continue
            yield work, name


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("worker")
    parser.add_argument("--type", action="append", choices=TYPES, dest="types")
    parser.add_argument("--work", action="append", choices=NAMES)
    parser.add_argument("--isa", action="append", help="an instruction set [default: the best]")
    parser.add_argument("--all-isas", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    ours, reference = Ours(arguments.worker), Reference()
    known = ours.ask("isas")
    isas = known if arguments.all_isas else arguments.isa or known[-1:]
    for number, _, _, _ in TYPES.values():
        reference.lib.ggml_quantize_init(number)
    print("Million weights a second, one thread, medians; in parentheses the multiple of the reference.\n")
    print(f"| type | work | reference | {' | '.join(isas)} |")
    print(f"|---|---|--:|{'--:|' * len(isas)}")
    with tempfile.TemporaryDirectory() as directory:
        for work, name in cases(reference, arguments.work or NAMES, arguments.types or TYPES):
            theirs, mine = measure(ours, reference, pathlib.Path(directory), name, work, isas, arguments.rounds)
            cells = " | ".join(f"{speed:.4g} ({speed / theirs:.2f}×)" for speed in mine.values())
            print(f"| {name} | {NAMES[work]} | {theirs:.4g} | {cells} |", flush=True)
    versions = [f"{package} {importlib.metadata.version(package)}" for package in ("llama-cpp-python", "numpy")]
    print(f"\n{datetime.datetime.now(datetime.timezone.utc):%F}; {machine()}; {'; '.join(versions)}; rows of {ROW}, {arguments.rounds} rounds")


if __name__ == "__main__":
    main()

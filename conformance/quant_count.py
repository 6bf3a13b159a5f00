"""Count the instructions of ggmill's codecs and of the reference's, one by one: `python3 conformance/run.py quant-count`.

usage: quant_count.py WORKER [--type NAME ...] [--work quantize|importance|dequantize ...] [--isa NAME ...]

WORKER is quant_worker of ggmill-bench. Both sides run under ptrace, an instruction at a time, from a mark before the work to one after it; what the same takes for
an empty input is subtracted. So the count is exact, and the same on every run; only an instruction that repeats itself (`rep`) counts as often as it does. The
reference is libggml-base of llama-cpp-python. Linux alone, some seconds for each row and minutes for the slow types.
"""

import argparse
import ctypes
import os
import pathlib
import signal
import subprocess
import tempfile

import numpy as np

from quant import NAMES, cases, reference_call
from quant_vectors import TYPES, Reference, bell, weights

TRACE_ME, CONTINUE, STEP = 0, 7, 9

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.restype = ctypes.c_long
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


def until_stop(pid, request):
    """How many times a process has to be told to go on until it stops itself."""
    trace, wait, told = LIBC.ptrace, os.waitpid, 0
    while True:
        if trace(request, pid, None, None) < 0:
            raise SystemExit(f"ptrace: {os.strerror(ctypes.get_errno())}")
        told += 1
        _, status = wait(pid, 0)
        if not os.WIFSTOPPED(status):
            raise SystemExit("a process ended before its work did")
        if os.WSTOPSIG(status) == signal.SIGSTOP:
            return told


def count_call(call):
    """The instructions of a function, and of what marks its beginning and end."""
    pid = os.fork()
    if pid == 0:
        LIBC.ptrace(TRACE_ME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        # What is done once, by the first call, is not counted.
        call()
        os.kill(os.getpid(), signal.SIGSTOP)
        call()
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, 0)
    until_stop(pid, CONTINUE)
    told = until_stop(pid, STEP)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return told


def count_worker(worker, words):
    """The instructions of one line of work, between the worker's marks."""
    process = subprocess.Popen([worker], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=lambda: LIBC.ptrace(TRACE_ME, 0, None, None))
    os.waitpid(process.pid, 0)
    process.stdin.write(("\t".join(map(str, words)) + "\n").encode())
    process.stdin.close()
    until_stop(process.pid, CONTINUE)
    told = until_stop(process.pid, STEP)
    process.kill()
    process.wait()
    return told


def blocks_for(name, side):
    """Weights enough for what is done for many blocks at once, and no more than has to be."""
    if name.startswith(("IQ1", "IQ2", "IQ3")):
        return 512
    return 8192 if side == "ours" else 1024


def count(worker, reference, directory, name, work, isas):
    number, elements, size, _ = TYPES[name]
    found = []
    for side in ["reference", *isas]:
        length = 8192 if work == "dequantize" else blocks_for(name, "reference" if side == "reference" else "ours")
        rows = np.ascontiguousarray((bell(number, length) * np.float32(0.0625)).reshape(1, length))
        importance = weights("random", 1, length) if work == "importance" or reference.requires_importance(number) else None
        blocks = reference.quantize(name, rows, importance) if work == "dequantize" else b""
        if side == "reference":
            empty, _ = reference_call(reference, name, work, np.zeros((0, length), np.float32), importance, b"")
            call, _ = reference_call(reference, name, work, rows, importance, blocks)
            found.append((count_call(call) - count_call(empty)) / length)
            continue
        (directory / "input").write_bytes(blocks if work == "dequantize" else rows.tobytes())
        (directory / "empty").write_bytes(b"")
        if importance is not None:
            (directory / "weights").write_bytes(importance.tobytes())
        kind = "dequantize" if work == "dequantize" else "quantize"
        weigh = directory / "weights" if importance is not None and work != "dequantize" else "-"
        words = lambda source, columns, weigh: [kind, name, side, directory / source, columns, weigh, "marked", "-"]
        without = [] if weigh == "-" else [directory / "empty"]
        base = count_worker(worker, words("empty", 0, *(without or ["-"])))
        found.append((count_worker(worker, words("input", length, weigh)) - base) / length)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("worker")
    parser.add_argument("--type", action="append", choices=TYPES, dest="types")
    parser.add_argument("--work", action="append", choices=NAMES)
    parser.add_argument("--isa", action="append", help="an instruction set [default: the best]")
    arguments = parser.parse_args()
    reference = Reference()
    known = subprocess.run([arguments.worker], input="isas\n", stdout=subprocess.PIPE, text=True, check=True).stdout.split("\t")
    isas = arguments.isa or [known[-1].strip()]
    for number, _, _, _ in TYPES.values():
        reference.lib.ggml_quantize_init(number)
    print("Instructions for each weight; in parentheses how many times as many the reference takes.\n")
    print(f"| type | work | reference | {' | '.join(isas)} |")
    print(f"|---|---|--:|{'--:|' * len(isas)}")
    with tempfile.TemporaryDirectory() as directory:
        for work, name in cases(reference, arguments.work or NAMES, arguments.types or TYPES):
            theirs, *ours = count(arguments.worker, reference, pathlib.Path(directory), name, work, isas)
            cells = " | ".join(f"{number:.4g} ({theirs / number:.1f}×)" for number in ours)
            print(f"| {name} | {NAMES[work]} | {theirs:.4g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()

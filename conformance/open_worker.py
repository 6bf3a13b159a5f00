"""The C reader and gguf as sides of `python3 conformance/run.py open`.

Each line of standard input is a reader, how often to open, and a path, with tabs between them; the answer is a line of pairs and tensors found and the nanoseconds of
each time, or what went wrong.

- c: gguf_init_from_file of the libggml-base in llama-cpp-python, without the data of tensors, then gguf_free.
- gguf-py: gguf.GGUFReader.

The clock is that of the thread: the files are in memory, so nobody waits for anything but a processor.

The line "versions" is answered with what is installed.
"""

import ctypes
import importlib.metadata
import importlib.util
import pathlib
import platform
import sys
import time

import gguf


class Params(ctypes.Structure):
    _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]


def c_reader():
    package = importlib.util.find_spec("llama_cpp")
    library = ctypes.CDLL(str(pathlib.Path(package.origin).parent / "lib" / "libggml-base.so"))
    init, free = library.gguf_init_from_file, library.gguf_free
    init.restype, init.argtypes = ctypes.c_void_p, [ctypes.c_char_p, Params]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    pairs, tensors = library.gguf_get_n_kv, library.gguf_get_n_tensors
    for count in (pairs, tensors):
        count.restype, count.argtypes = ctypes.c_int64, [ctypes.c_void_p]

    def read(path):
        name = path.encode()
        begin = time.thread_time_ns()
        file = init(name, Params(True, None))
        if not file:
            return None
        counts = pairs(file), tensors(file)
        free(file)
        return time.thread_time_ns() - begin, *counts

    return read


def gguf_py(path):
    begin = time.thread_time_ns()
    reader = gguf.GGUFReader(path)
    taken = time.thread_time_ns() - begin
    # It shows version and counts among the fields.
    return taken, sum(not name.startswith("GGUF.") for name in reader.fields), len(reader.tensors)


def main():
    readers = {"c": c_reader(), "gguf-py": gguf_py}
    for line in sys.stdin:
        line = line.rstrip("\n")
        if line == "versions":
            versions = [f"{package} {importlib.metadata.version(package)}" for package in ("llama-cpp-python", "gguf", "numpy")]
            print("; ".join([f"Python {platform.python_version()}"] + versions), flush=True)
            continue
        reader, times, path = line.split("\t", 2)
        try:
            results = [readers[reader](path) for _ in range(int(times))]
        except Exception as error:
            print(f"error: {type(error).__name__}: {error}".replace("\n", " "), flush=True)
            continue
        if None in results:
            print("error: refused", flush=True)
            continue
        print(*results[-1][1:], *(result[0] for result in results), sep="\t", flush=True)


if __name__ == "__main__":
    main()

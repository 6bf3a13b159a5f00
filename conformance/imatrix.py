#!/usr/bin/env python3
"""Compare `ggmill imatrix merge` and `convert` with what tools/imatrix/imatrix.cpp says, in numpy's single precision; gguf's reader reads the results.

usage: imatrix.py GGMILL DIRECTORY

DIRECTORY has importance matrices NAME.imatrix.gguf and NAME.imatrix.dat (made by ggmill-testdata). Exit status 1 when a number differs.
"""

import pathlib
import struct
import subprocess
import sys

import gguf
import numpy as np

CHUNK = 512


def read_gguf(path):
    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: tensor.data.astype(np.float32).reshape(-1) for tensor in reader.tensors}
    names = sorted(name.removesuffix(".in_sum2") for name in tensors if name.endswith(".in_sum2"))
    entries = {name: (tensors[name + ".in_sum2"], tensors[name + ".counts"].astype(np.int64)) for name in names}
    fields = {key: reader.get_field(key).contents() for key in ("imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size")}
    return entries, fields


def read_dat(path):
    data = path.read_bytes()
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0]

    entries = {}
    for _ in range(take("i")):
        name = take(f"{take('i')}s").decode()
        calls, count = take("i"), take("i")
        entries[name] = (np.frombuffer(data, "<f4", count, at), calls)
        at += 4 * count
    chunks = take("i")
    return entries, chunks, take(f"{take('i')}s").decode()


def load(files):
    """The sums and counts after loading these files one behind the other."""
    stats, datasets = {}, []
    for path in files:
        if path.suffix == ".dat":
            entries, _, dataset = read_dat(path)
            datasets.append(dataset)
            for name, (sums, calls) in entries.items():
                before = stats.get(name, (np.zeros(len(sums), np.float32), np.zeros(1, np.int64)))
                stats[name] = (before[0] + sums * np.float32(CHUNK), before[1] + calls * CHUNK)
        else:
            entries, fields = read_gguf(path)
            datasets += fields["imatrix.datasets"]
            for name, (sums, counts) in entries.items():
                before = stats.get(name, (np.zeros(len(sums), np.float32), np.zeros(len(counts), np.int64)))
                counted = np.full(len(counts), before[1][0]) if len(before[1]) == 1 else before[1]
                stats[name] = (before[0] + sums, counted + counts)
    return stats, datasets, max(int(counts.max()) for _, counts in stats.values()) // CHUNK


def as_dat(stats):
    entries = {}
    for name, (sums, counts) in stats.items():
        if not counts.any():
            continue
        calls = (int(counts.max()) + CHUNK - 1) // CHUNK
        of_each = np.repeat(counts, len(sums) // len(counts)).astype(np.float32)
        with np.errstate(invalid="ignore", divide="ignore"):
            entries[name] = (np.where(of_each == 0, np.float32(1), sums / of_each) * np.float32(calls), calls)
    return entries


def main():
    ggmill, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    checked = 0
    for new in sorted(directory.glob("*.imatrix.gguf")):
        old = new.with_suffix(".dat")
        for files in ([new], [old], [new, new], [old, new], [new, old, new]):
            stats, datasets, chunks = load(files)
            out = directory / "merged.gguf"
            subprocess.run([ggmill, "--quiet", "imatrix", "merge", *files, "-o", out, "--force"], check=True)
            entries, fields = read_gguf(out)
            assert list(entries) == sorted(stats), files
            for name, (sums, counts) in stats.items():
                assert entries[name][0].tobytes() == sums.astype(np.float32).tobytes(), (files, name)
                assert (entries[name][1] == counts).all(), (files, name)
            assert fields == {"imatrix.datasets": datasets, "imatrix.chunk_count": chunks, "imatrix.chunk_size": CHUNK}, (files, fields)
            dat = directory / "merged.dat"
            subprocess.run([ggmill, "--quiet", "imatrix", "convert", out, dat, "--force"], check=True)
            entries, found_chunks, dataset = read_dat(dat)
            expected = as_dat(stats)
            assert entries.keys() == expected.keys() and (found_chunks, dataset) == (chunks, datasets[-1]), files
            for name, (sums, calls) in expected.items():
                assert entries[name][0].tobytes() == sums.astype(np.float32).tobytes() and entries[name][1] == calls, (files, name)
            out.unlink()
            dat.unlink()
            checked += 2
    print(f"{checked} matrices merged and converted as the reference does")


if __name__ == "__main__":
    main()

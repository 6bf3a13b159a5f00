#!/usr/bin/env python3
"""The grids of the IQ1, IQ2 and IQ3 types, read off a running reference.

A grid is a set of points: eight levels of three, or four of eight. This script asks the dequantizer of `libggml-base` (package `llama-cpp-python`) for the
values of every index, turns them back into levels, checks that the points ascend when read as numbers whose first digit is the lowest, and so can be
written as a set: one bit per number. It prints `sets.rs` of `crates/ggmill-quant/src/block/iq`, or, with `--digests`, the
digests of all values that `tests/it/grids.rs` expects.

    python3 iq_tables.py > sets.rs
    python3 iq_tables.py --digests
"""

import struct
import sys

import numpy as np
from quant_vectors import Reference, digest

# Half precision: the super-scale that makes the scale of a group of lowest scale exactly 1.
SCALES = {"IQ2": 8.0, "IQ3_XXS": 4.0, "IQ3_S": 1.0, "IQ1": 1.0}

# Type, bytes of a block, points, levels of a point, the values of its levels. IQ1_M shares the grid of IQ1_S.
GRIDS = [
    ("IQ2_XXS", 66, 256, 8, [8, 25, 43]),
    ("IQ2_XS", 74, 512, 8, [8, 25, 43]),
    ("IQ2_S", 82, 1024, 8, [8, 25, 43]),
    ("IQ3_XXS", 98, 256, 4, [4, 12, 20, 28, 36, 44, 52, 62]),
    ("IQ3_S", 110, 512, 4, [1, 3, 5, 7, 9, 11, 13, 15]),
    ("IQ1_S", 50, 2048, 8, [-0.875, 0.125, 1.125]),
]

DOCS = {
    "IQ1_S": "IQ1_S and IQ1_M",
}


def half(name):
    return struct.pack("<e", next(scale for prefix, scale in SCALES.items() if name.startswith(prefix)))


def block(name, size, indices):
    """A block of these indices (256 weights' worth), no signs, every scale the lowest."""
    out = bytearray(size)
    out[:2] = half(name)
    for place, index in enumerate(indices):
        if name == "IQ2_XXS":
            out[2 + 8 * (place // 4) + place % 4] = index
        elif name == "IQ2_XS":
            out[2 + 2 * place : 4 + 2 * place] = struct.pack("<H", index)
        elif name == "IQ2_S":
            out[2 + place] = index & 255
            out[66 + place // 4] |= (index >> 8) << (2 * (place % 4))
        elif name == "IQ3_XXS":
            out[2 + place] = index
        elif name == "IQ3_S":
            out[2 + place] = index & 255
            out[66 + place // 8] |= (index >> 8) << (place % 8)
        elif name == "IQ1_S":
            out[2 + place] = index & 255
            high = struct.unpack_from("<H", out, 34 + 2 * (place // 4))[0] | (index >> 8) << (3 * (place % 4))
            struct.pack_into("<H", out, 34 + 2 * (place // 4), high)
    return bytes(out)


def values(reference, name, size, points, width):
    """The values of all points, in order."""
    per_block = 256 // width
    blocks = b"".join(block(name, size, range(start, start + per_block)) for start in range(0, points, per_block))
    return reference.dequantize(name, blocks)


def main():
    reference = Reference()
    if "--digests" in sys.argv[1:]:
        for name, size, points, width, _ in GRIDS:
            print(f"{name} {digest(values(reference, name, size, points, width).astype('<f4').tobytes()):#018x}")
        return
    print("//! The grids as bit sets: bit `n % 64` of word `n / 64` is set if the grid contains the point whose levels are the digits of `n`.")
    print("//!")
    print("//! Digits are in base 3 for points of eight levels and in base 8 for points of four, the first level in the lowest digit. A point's index in a")
    print("//! file is its rank in the set. The sets are data of the format: its authors selected the points, and no shorter rule gives them. The tables are")
    print("//! printed by `conformance/iq_tables.py`, which derives them from the output of the reference's dequantizers.")
    for name, size, points, width, levels in GRIDS:
        found = values(reference, name, size, points, width).reshape(points, width)
        numbers = [sum(levels.index(value) * len(levels) ** place for place, value in enumerate(point)) for point in found.tolist()]
        assert all(a < b for a, b in zip(numbers, numbers[1:])), name
        words = [0] * -(-len(levels) ** width // 64)
        for number in numbers:
            words[number // 64] |= 1 << (number % 64)
        print(f"\n/// {DOCS.get(name, name)}: {points} points.")
        print("#[rustfmt::skip]")
        print(f"pub(super) const {name}: [u64; {len(words)}] = [")
        texts = ["0x" + "_".join(f"{word:016x}"[i : i + 4] for i in range(0, 16, 4)) for word in words]
        for start in range(0, len(texts), 6):
            print(f"    {', '.join(texts[start : start + 6])},")
        print("];")


if __name__ == "__main__":
    main()

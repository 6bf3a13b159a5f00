#!/usr/bin/env python3
"""Write golden vectors of the block codecs, as the reference computes them.

usage: quant_vectors.py OUTPUT_DIR [--seed N] [--type NAME ...]

The reference is libggml-base of the llama-cpp-python package installed in the Python that runs this, on x86-64. Inputs are not stored: they come from an
integer generator that the Rust tests repeat (crates/ggmill-quant/tests/it/inputs.rs); every step there is exact or a single IEEE operation. Types whose
quantizer can abort run in child processes: where one does, the digest is the word "abort".
"""

import argparse
import ctypes
import importlib.metadata
import importlib.util
import os
import pathlib
import struct

import numpy as np

MASK = (1 << 64) - 1

TYPES = {
    # name: (number, elements, bytes, uses importance)
    "F32": (0, 1, 4, False), "F16": (1, 1, 2, False), "BF16": (30, 1, 2, False),
    "Q4_0": (2, 32, 18, True), "Q4_1": (3, 32, 20, True), "Q5_0": (6, 32, 22, True), "Q5_1": (7, 32, 24, True),
    "Q8_0": (8, 32, 34, False), "Q8_1": (9, 32, 36, False),
    "Q2_K": (10, 256, 84, True), "Q3_K": (11, 256, 110, True), "Q4_K": (12, 256, 144, True), "Q5_K": (13, 256, 176, True),
    "Q6_K": (14, 256, 210, True), "Q8_K": (15, 256, 292, False),
    "IQ2_XXS": (16, 256, 66, True), "IQ2_XS": (17, 256, 74, True), "IQ3_XXS": (18, 256, 98, True), "IQ1_S": (19, 256, 50, True),
    "IQ4_NL": (20, 32, 18, True), "IQ3_S": (21, 256, 110, True), "IQ2_S": (22, 256, 82, True), "IQ4_XS": (23, 256, 136, True),
    "IQ1_M": (29, 256, 56, True),
    "TQ1_0": (34, 256, 54, False), "TQ2_0": (35, 256, 66, False), "MXFP4": (39, 32, 17, False), "NVFP4": (40, 64, 36, False),
    "Q1_0": (41, 128, 18, False), "Q2_0": (42, 64, 18, False),
}

# Not offered by ggml_quantize_chunk, only as a row function.
ROW_FUNCTION_ONLY = {"Q8_1", "Q8_K"}
# Their search can end in GGML_ABORT.
MAY_ABORT = {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"}
# No function turns these into values.
NO_DEQUANTIZE = {"Q8_1"}

# --- inputs ---------------------------------------------------------------------------------------------------------------------------------------------------


def hashes(seed, n):
    """SplitMix64: the n outputs after the state `seed`."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed & MASK) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def bell(seed, n):
    """Close to normal with deviation 1/2: three 20-bit uniforms around 0, added, over 2^20. Exact in f32."""
    h = hashes(seed, n)
    low = np.uint64(0xFFFFF)
    total = (h & low) + ((h >> np.uint64(20)) & low) + ((h >> np.uint64(40)) & low)
    return (total.astype(np.int64) - 3 * (1 << 19)).astype(np.float32) * np.float32(2.0**-20)


def uniform(seed, n):
    """24-bit uniforms in [0, 1). Exact in f32."""
    return (hashes(seed, n) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def from_bits(bits):
    return bits.astype(np.uint32).view(np.float32)


def values(pattern, seed, n):
    """One row of n values, f32."""
    i = np.arange(n)
    h = hashes(seed ^ 0x5EED, n)
    g = bell(seed, n)
    match pattern:
        case "gaussian":
            return g * np.float32(2.0**-4)
        case "heavy":
            return ((g * g) * g) * np.float32(4.0)
        case "heavier":
            cube = (g * g) * g
            return (cube * cube) * cube
        case "constant":
            return np.full(n, np.float32(0.7109375))
        case "zero":
            return np.zeros(n, np.float32)
        case "tiny":
            return g * np.float32(2.0**-24)
        case "minute":
            return g * np.float32(2.0**-60)
        case "huge":
            return g * np.float32(2.0**100)
        case "large":
            return g * np.float32(2.0**14)
        case "limit":
            return from_bits((h & np.uint64(0x80000000)) | np.uint64(0x7F7FFFFF))
        case "subnormal":
            return from_bits(h & np.uint64(0x807FFFFF))
        case "signed-zero":
            return from_bits(h & np.uint64(0x80000000))
        case "one-hot":
            return np.where(i % 64 == 37, np.float32(-1.25), np.float32(0.0)).astype(np.float32)
        case "sorted":
            return (i - n // 3).astype(np.float32) * np.float32(2.0**-9)
        case "positive":
            return np.abs(g) + np.float32(0.5)
        case "negative":
            return np.float32(-0.5) - np.abs(g)
        case "halves":
            # Multiples of 1/2 below 8: ties wherever a scale comes out as a power of two.
            return ((h >> np.uint64(40)) % np.uint64(33)).astype(np.int64).astype(np.float32) * np.float32(0.5) - np.float32(8.0)
        case "ternary":
            return (h % np.uint64(3)).astype(np.int64).astype(np.float32) * np.float32(0.75) - np.float32(0.75)
        case "outlier":
            return np.where(i % 97 == 5, g * np.float32(64.0), g * np.float32(2.0**-5)).astype(np.float32)
        case "patchy":
            # Every 16 values at a magnitude of their own, some of them all zero.
            exponent = (hashes(seed ^ 0xFACE, n // 16 + 1) % np.uint64(24)).astype(np.int64)[i // 16]
            scale = np.where(exponent == 0, np.float32(0), from_bits((np.uint64(115) + exponent.astype(np.uint64)) << np.uint64(23)))
            return g * scale.astype(np.float32)
        case "brink":
            # A hair's breadth below powers of two, at every exponent a block's largest value can have.
            exponent = (hashes(seed ^ 0xB11C, n // 32 + 1) % np.uint64(254)).astype(np.uint64)[i // 32]
            below = h % np.uint64(96)
            top = from_bits((exponent << np.uint64(23)) | (np.uint64(0x7FFFFF) - below))
            return np.where(i % 32 == 11, top, top * g * np.float32(0.25)).astype(np.float32)
        case "wild":
            # Any finite bits.
            exponent = (h >> np.uint64(32)) % np.uint64(255)
            return from_bits((h & np.uint64(0x807FFFFF)) | (exponent << np.uint64(23)))
    raise ValueError(pattern)


PATTERNS = [
    "gaussian", "heavy", "heavier", "constant", "zero", "tiny", "minute", "huge", "large", "limit", "subnormal", "signed-zero", "one-hot", "sorted",
    "positive", "negative", "halves", "ternary", "outlier", "patchy", "brink", "wild",
]


def weights(kind, seed, n):
    """Importance for one row, or None."""
    u = uniform(seed ^ 0x1337, n)
    match kind:
        case "none":
            return None
        case "random":
            return u + np.float32(2.0**-6)
        case "spiky":
            square = u * u
            fourth = square * square
            return (fourth * fourth) * np.float32(4096.0)
        case "sparse":
            return np.where((hashes(seed ^ 0x51AB, n) & np.uint64(3)) == 0, u, np.float32(0)).astype(np.float32)
        case "zero":
            return np.zeros(n, np.float32)
    raise ValueError(kind)


WEIGHTS = ["none", "random", "spiky", "sparse", "zero"]


def shapes(elements):
    """(rows, row length): one block, a few rows, a longer row; where affordable, a row of 16384 for the first patterns."""
    return [(1, max(elements, 32)), (3, 768), (1, 2816)]


LONG = (1, 16384)
LONG_PATTERNS = {"gaussian", "heavy"}

# --- the reference --------------------------------------------------------------------------------------------------------------------------------------------


class Traits(ctypes.Structure):
    _fields_ = [
        ("type_name", ctypes.c_char_p), ("blck_size", ctypes.c_int64), ("blck_size_interleave", ctypes.c_int64), ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool), ("to_float", ctypes.c_void_p), ("from_float_ref", ctypes.c_void_p),
    ]


ROW_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Reference:
    def __init__(self):
        package = importlib.util.find_spec("llama_cpp")
        if package is None:
            raise SystemExit("llama-cpp-python is not installed in this Python")
        self.lib = ctypes.CDLL(str(pathlib.Path(package.origin).parent / "lib" / "libggml-base.so"))
        self.lib.ggml_quantize_chunk.restype = ctypes.c_size_t
        self.lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
        self.lib.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
        self.lib.ggml_quantize_requires_imatrix.restype = ctypes.c_bool

    def traits(self, number):
        return self.lib.ggml_get_type_traits(number).contents

    def requires_importance(self, number):
        return self.lib.ggml_quantize_requires_imatrix(number)

    def quantize(self, name, rows, importance):
        number, elements, size, _ = TYPES[name]
        rows = np.ascontiguousarray(rows, np.float32)
        out = np.zeros(rows.size // elements * size, np.uint8)
        if name in ROW_FUNCTION_ONLY:
            function = getattr(self.lib, f"quantize_row_{name.lower().replace('_k', '_K')}_ref")
            function.restype, function.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
            function(rows.ctypes.data, out.ctypes.data, rows.size)
        else:
            pointer = None if importance is None else importance.ctypes.data
            written = self.lib.ggml_quantize_chunk(number, rows.ctypes.data, out.ctypes.data, 0, rows.shape[0], rows.shape[1], pointer)
            assert written == out.size, (name, written, out.size)
        return out.tobytes()

    def dequantize(self, name, blocks):
        number, elements, size, _ = TYPES[name]
        out = np.zeros(len(blocks) // size * elements, np.float32)
        if name == "F32":
            return np.frombuffer(blocks, np.float32).copy()
        if name == "Q8_K":
            function = ctypes.cast(self.lib.dequantize_row_q8_K, ctypes.c_void_p).value
        else:
            function = self.traits(number).to_float
        source = np.frombuffer(blocks, np.uint8).copy()
        ROW_FUNCTION(function)(source.ctypes.data, out.ctypes.data, out.size)
        return out


def sheltered(work):
    """The bytes `work` returns, or None where it ends the process (points off the grid do that to some IQ types)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(work())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return data if status == 0 else None


def digest(data):
    """FNV-1a over 8-byte little-endian words, the last one padded with zeros, then over the length."""
    state = 0xCBF29CE484222325
    padded = data + bytes(-len(data) % 8)
    for word in struct.unpack(f"<{len(padded) // 8}Q", padded):
        state = ((state ^ word) * 0x100000001B3) & MASK
    return ((state ^ len(data)) * 0x100000001B3) & MASK


# --- the files ------------------------------------------------------------------------------------------------------------------------------------------------


def case_seed(seed, pattern, kind, rows, row_len):
    """One number per case, so that no two cases see the same values."""
    return (seed * 1_000_003 + PATTERNS.index(pattern) * 10_007 + WEIGHTS.index(kind) * 101 + rows * 13 + row_len) & MASK


def case(pattern, kind, seed, rows, row_len):
    start = case_seed(seed, pattern, kind, rows, row_len)
    table = np.stack([values(pattern, start + (row << 32), row_len) for row in range(rows)])
    return table, weights(kind, start, row_len)


def random_blocks(seed, length):
    return hashes(seed, (length + 7) // 8).astype("<u8").tobytes()[:length]


def write_type(reference, name, seed, path):
    number, elements, size, uses_importance = TYPES[name]
    lines = [f"seed {seed}"]
    kinds = WEIGHTS if uses_importance else ["none", "random"]
    for pattern in PATTERNS:
        for kind in kinds:
            if kind == "none" and reference.requires_importance(number):
                continue
            sizes = shapes(elements)
            if pattern in LONG_PATTERNS and kind in ("none", "random"):
                sizes = sizes + [LONG]
            for rows, row_len in sizes:
                table, importance = case(pattern, kind, seed, rows, row_len)
                assert np.isfinite(table).all(), pattern
                work = lambda: reference.quantize(name, table, importance)
                data = sheltered(work) if name in MAY_ABORT else work()
                result = "abort" if data is None else f"{digest(data):016x}"
                lines.append(f"quantize {pattern} {kind} {rows}x{row_len} {result}")
                if pattern == "gaussian" and (rows, row_len) == sizes[0]:
                    lines.append(f"sample {pattern} {kind} {rows}x{row_len} {data.hex()}")
    if name not in NO_DEQUANTIZE:
        fills = [("random", random_blocks(seed + k, size * blocks), blocks) for k, blocks in enumerate((1, 5, 64, 300))]
        fills += [(f"{byte:02x}", bytes([byte]) * size, 1) for byte in (0x00, 0x3C, 0x7B, 0x7F, 0x80, 0xFB, 0xFF)]
        for index, (fill, blocks, count) in enumerate(fills):
            out = reference.dequantize(name, blocks)
            out[np.isnan(out)] = np.float32(np.nan)
            bits = out.view(np.uint32)
            bits[np.isnan(out)] = 0x7FC00000
            lines.append(f"dequantize {fill} {index} {count} {digest(bits.astype('<u4').tobytes()):016x}")
    (path / f"{name}.txt").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--type", action="append", choices=TYPES, dest="types")
    arguments = parser.parse_args()
    reference = Reference()
    for name, (number, elements, size, _) in TYPES.items():
        traits = reference.traits(number)
        assert (traits.blck_size, traits.type_size) == (elements, size), name
    # The tables of the IQ types are built once, before the children inherit them.
    for number, _, _, _ in TYPES.values():
        reference.lib.ggml_quantize_init(number)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in arguments.types or TYPES:
        write_type(reference, name, arguments.seed, arguments.output)
    print(f"llama-cpp-python {importlib.metadata.version('llama-cpp-python')}, seed {arguments.seed}: {arguments.output}")


if __name__ == "__main__":
    main()

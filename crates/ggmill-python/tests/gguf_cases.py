"""Files, arguments and arrays for comparisons of ggmill.gguf with the package gguf.

conformance/python_gguf.py compares the two with these, and records what the reference makes of them
in fixtures/gguf_reference.json, which the tests here compare with.
"""

from __future__ import annotations

import hashlib
import inspect
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def outcome(call: Any) -> Any:
    """Return the result of a call, or the class and message of its exception."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sample(annotation: str, name: str, seed: int, module):
    """Return a value for a parameter, by its annotation."""
    r = random.Random(f"{name} {seed}")
    if "GGUF" in annotation or "np." in annotation:
        return None
    choices = []
    if "Sequence[bool]" in annotation:
        choices.append([r.random() < 0.5 for _ in range(r.randrange(1, 5))])
    if "Sequence[float]" in annotation:
        choices.append([r.uniform(-3, 3) for _ in range(r.randrange(1, 5))])
    if "Sequence[int]" in annotation:
        choices.append([r.randrange(1 << 20) for _ in range(r.randrange(1, 5))])
    if "Sequence[Sequence[int]]" in annotation:
        choices.append([[1, 2], [3, 4]])
    if "Sequence[str]" in annotation:
        choices.append(["a", "ß", "日本"][: r.randrange(1, 4)])
    if "Sequence[bytes]" in annotation:
        choices.append([b"a", b"\xff\x00"])
    for kind in ("PoolingType", "RopeScalingType", "ExpertGatingFuncType"):
        if annotation == kind:
            choices.append(r.choice(list(getattr(module, kind))))
    if annotation == "bytes":
        choices.append(bytes(r.randrange(256) for _ in range(9)))
    plain = [one.strip() for one in annotation.split("|")]
    if "int" in plain:
        choices.append(r.randrange(1 << 7))
    if "float" in plain:
        choices.append(r.uniform(-3, 3))
    if "str" in plain:
        choices.append(r.choice(["", "text", "naïve ünïcode", "a\nb"]))
    if "bool" in plain:
        choices.append(r.random() < 0.5)
    assert choices, annotation
    return choices[seed % len(choices)]


SKIPPED = {
    "add_tensor",
    "add_tensor_info",
    "add_key_value",
    "add_shard_kv_data",
    "add_custom_alignment",
    "add_chat_template",
    "add_array",
    "add_tensor_extra_prec_a4",
}


def key_methods(module) -> list[str]:
    """Return the methods that set a key."""
    return [
        name
        for name in sorted(dir(module.GGUFWriter))
        if name.startswith("add_") and name not in SKIPPED
    ]


def keys(module, writer, seed: int, only: str | None = None) -> None:
    """Call every method that sets a key, or one of them."""
    for name in key_methods(module) if only is None else [only]:
        parameters = list(inspect.signature(getattr(module.GGUFWriter, name)).parameters.values())[
            1:
        ]
        arguments = {
            one.name: sample(str(one.annotation), f"{name} {one.name}", seed, module)
            for one in parameters
        }
        if "key" in arguments:
            arguments["key"] = f"x.{name}"
        getattr(writer, name)(**arguments)


def more_keys(module, writer) -> None:
    writer.add_custom_alignment(64)
    writer.add_tensor_extra_prec_a4(["a", "b"], [True, False])
    writer.add_chat_template(
        [{"name": "default", "template": "{{ x }}"}, {"name": "tool use", "template": "{{ y }}"}]
    )
    writer.add_array("x.nested", [[1, 2], [3]])
    writer.add_array("x.tuple", (1.5, 2.5))
    writer.add_array("x.range", range(5))
    writer.add_array("x.empty", [])
    kind = module.GGUFValueType
    for sub in (
        kind.UINT8,
        kind.INT8,
        kind.UINT16,
        kind.INT16,
        kind.UINT64,
        kind.INT64,
        kind.FLOAT64,
        kind.BOOL,
        kind.STRING,
    ):
        writer.add_key_value(
            f"x.sub.{sub.name}", ["a", "b"] if sub == kind.STRING else [1, 0, 1], kind.ARRAY, sub
        )
    writer.remove_key("x.tuple")


def tensors(module) -> list:
    r = np.random.default_rng(7)
    kind = module.GGMLQuantizationType
    found = [
        (f"plain.{name}", r.integers(0, 100, (3, 5)).astype(name), None)
        for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64")
    ]
    found += [
        ("blk.0.q8_0", r.integers(0, 256, (2, 68)).astype(np.uint8), kind.Q8_0),
        ("scalar", np.float32(3).reshape(()), None),
        ("blk.0.ffn_up_exps.weight", r.random((4, 3, 32), dtype=np.float32), None),
        ("one", np.arange(7, dtype=np.float32), None),
    ]
    return found


def write_all(module, path: Path, mode: str, **options) -> None:
    writer = module.GGUFWriter(path, "llama", **options)
    for seed in range(3):
        keys(module, writer, seed)
    more_keys(module, writer)
    if mode == "held":
        for name, data, kind in tensors(module):
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    else:
        for name, data, kind in tensors(module):
            writer.add_tensor_info(name, data.shape, data.dtype, data.nbytes, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for _, data, _ in tensors(module):
            writer.write_tensor_data(data)
    writer.close()


def writer_cases() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return byte orders, ways of writing, and options of GGUFWriter."""
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    options: dict[str, dict[str, Any]] = {
        "whole": {},
        "3 tensors": {"split_max_tensors": 3},
        "200 bytes": {"split_max_size": 200},
        "small first": {"split_max_tensors": 4, "small_first_shard": True},
        "temp": {"use_temp_file": True},
    }
    for endian in ("LITTLE", "BIG"):
        for mode in ("held", "streamed"):
            for label, chosen in options.items():
                if mode == "held" or label != "temp":
                    found[f"{endian} {mode} {label}"] = (endian, mode, chosen)
    return found


def written(module: Any, case: tuple[str, str, dict[str, Any]]) -> dict[str, bytes]:
    """Return the files that a case writes, by name."""
    endian, mode, options = case
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "m.gguf"
        write_all(module, path, mode, endianess=module.GGUFEndian[endian], **options)
        return {one.name: one.read_bytes() for one in sorted(Path(directory).iterdir())}


def written_key(module: Any, name: str) -> bytes:
    """Return a file with the key that a method sets."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "one.gguf"
        writer = module.GGUFWriter(path, "gemma3")
        keys(module, writer, 1, only=name)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def counted() -> list:
    return [
        [("a", (3, 4)), ("b.bias", (4,))],
        [
            ("blk.0.ffn_up_exps.weight", (8, 3, 4)),
            ("blk.0.ffn_up_exps.bias", (8, 3)),
            ("c", (2, 2)),
            ("d_exps.x", (3, 3)),
        ],
        [("a.lora_a", (2, 4)), ("a.lora_b", (5, 2))],
        [("a.lora_b", (5, 2)), ("a.lora_a", (2, 4))],
        [],
    ]


def refusals() -> dict:
    def blank(m, **options):
        return m.GGUFWriter(None, "llama", **options)

    def packed(m, value, kind="ARRAY"):
        return blank(m)._pack_val(value, m.GGUFValueType[kind], add_vtype=True)

    def order(m):
        with tempfile.TemporaryDirectory() as directory:
            one = m.GGUFWriter(Path(directory) / "x.gguf", "llama")
            one.write_kv_data_to_file()

    def twice(m):
        one = blank(m)
        one.add_tensor("a", np.zeros(3, np.float32))
        one.add_tensor("a", np.zeros(3, np.float32))

    return {
        "an empty array": lambda m: packed(m, []),
        "a set": lambda m: packed(m, {1}),
        "a mixed array": lambda m: packed(m, [1, "a"]),
        "None in an array": lambda m: packed(m, [None]),
        "an object": lambda m: packed(m, [object]),
        "a number out of range": lambda m: outcome(lambda: packed(m, 1 << 40, "UINT32"))[:13],
        "the wrong order": order,
        "a duplicate tensor": twice,
        "an alignment": lambda m: blank(m).add_custom_alignment(24),
        "lengths": lambda m: blank(m).add_tensor_extra_prec_a4(["a"], []),
        "a dtype": lambda m: blank(m).add_tensor("a", np.zeros(3, np.uint16)),
        "complex": lambda m: blank(m).add_tensor("a", np.zeros(3, np.complex64)),
        "a byte shape": lambda m: blank(m).add_tensor(
            "a", np.zeros(33, np.uint8), raw_dtype=m.GGMLQuantizationType.Q8_0
        ),
        "an element shape": lambda m: m.quant_shape_to_byte_shape(
            (3, 33), m.GGMLQuantizationType.Q4_K
        ),
    }


def hostile() -> dict[str, bytes]:
    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    def head(
        tensor_count: int, entry_count: int, version: int = 3, magic: bytes = b"GGUF"
    ) -> bytes:
        return magic + struct.pack("<IQQ", version, tensor_count, entry_count)

    u32 = text(b"k") + struct.pack("<II", 4, 7)
    info = text(b"t") + struct.pack("<IQIQ", 1, 8, 0, 0)
    zeros = bytes(128)
    return {
        "magic": head(0, 0, magic=b"GGML") + zeros,
        "version 1": head(0, 0, 1) + zeros,
        "version 4": head(0, 0, 4) + zeros,
        "version big-endian": b"GGUF" + struct.pack(">IQQ", 9 << 16 | 3, 0, 0) + zeros,
        "many tensors": head(1 << 40, 0) + zeros,
        "many entries": head(0, 1 << 40) + zeros,
        "long key": head(0, 1) + struct.pack("<Q", 1 << 40) + zeros,
        "key past end": head(0, 1) + struct.pack("<Q", 1 << 20) + zeros,
        "duplicate key": head(0, 2) + u32 + u32 + zeros,
        "long string": head(0, 1) + text(b"k") + struct.pack("<IQ", 8, 1 << 20) + zeros,
        "long string in an array": head(0, 1)
        + text(b"k")
        + struct.pack("<IIQ", 9, 8, 2)
        + text(b"a")
        + struct.pack("<Q", 999)
        + zeros,
        "many elements": head(0, 1) + text(b"k") + struct.pack("<IIQ", 9, 4, 1 << 40) + zeros,
        "alignment type": head(0, 1)
        + text(b"general.alignment")
        + struct.pack("<IQ", 10, 32)
        + zeros,
        "alignment 0": head(0, 1) + text(b"general.alignment") + struct.pack("<II", 4, 0) + zeros,
        "alignment 24": head(0, 1) + text(b"general.alignment") + struct.pack("<II", 4, 24) + zeros,
        "duplicate tensor": head(2, 0) + info + info + zeros,
        "dimensions": head(1, 0) + text(b"t") + struct.pack("<I", 5) + zeros,
        "row": head(1, 0) + text(b"t") + struct.pack("<IQIQ", 1, 33, 8, 0) + zeros,
    }


def write_blocks(module, path: Path) -> None:
    """Write a file with the types whose blocks the reference can byte-swap."""
    r = np.random.default_rng(11)
    one = module.GGUFWriter(path, "llama")
    one.add_token_list(["a", "b"])
    one.add_token_scores([1.0, 2.0])
    one.add_name("swapped")
    one.add_block_count(3)
    for name in ("Q4_0", "Q8_0", "Q4_K", "Q6_K", "TQ2_0", "MXFP4", "Q1_0", "BF16"):
        kind = module.GGMLQuantizationType[name]
        size = module.GGML_QUANT_SIZES[kind][1]
        one.add_tensor(name, r.integers(0, 256, (3, 2 * size)).astype(np.uint8), raw_dtype=kind)
    one.add_tensor("f32", r.random((4, 4)).astype(np.float32))
    one.add_tensor("f16", r.random((4, 4)).astype(np.float16))
    one.write_header_to_file()
    one.write_kv_data_to_file()
    one.write_tensors_to_file()
    one.close()


def values() -> np.ndarray[Any, Any]:
    """Return values of shape (37, 512): random, small, large, zero, and a ramp."""
    found = np.random.default_rng(3).standard_normal((37, 512)).astype(np.float32)
    found[0] = 0
    found[1] *= 1e-6
    found[2] *= 1e4
    found[3] = np.arange(512)
    found[4, ::2] = 0
    return found


def blocks(module: Any, name: str) -> np.ndarray[Any, Any]:
    """Return random blocks of a type: nine rows of 512 elements."""
    shape = module.quant_shape_to_byte_shape((9, 512), module.GGMLQuantizationType[name])
    return np.random.default_rng(4).integers(0, 256, shape).astype(np.uint8)


def without_nan(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Replace NaN by 0, because its payload is not part of the promise."""
    return np.where(np.isnan(array), np.float32(0), array)


def model_ids() -> list[tuple[str, int]]:
    """Return IDs of models, with their numbers of parameters."""
    words = (
        "Llama 3 v2 7B 8x7B instruct Chat 128k small xl q4_k_m fp16 lora A3B 1_5B iter10 x 7b1 hf"
    ).split()
    r = random.Random(5)
    found = [
        "",
        "/a",
        "a/",
        "..",
        "./x-7B",
        "a b",
        "x-A3B-instruct",
        "q-1_5b",
        "m-7b1",
        "m-small-7B",
        "m-small",
        "m-128k",
        "lora-x-lora",
        "-",
        "a--b",
        "X-8x7B-v2",
    ]
    found += ["-".join(r.choices(words, k=r.randrange(1, 6))) for _ in range(300)]
    return [(one, total) for one in found for total in (0, 7_000_000_000, -7_000_000_000, 1000)]

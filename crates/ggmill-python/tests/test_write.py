"""Writing files from metadata and arrays."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import ggmill
import numpy as np
import numpy.typing as npt
import pytest

VALUES: dict[str, Any] = {
    "general.architecture": "llama",
    "a.bool": True,
    "a.u32": 7,
    "a.i32": -7,
    "a.u64": 2**40,
    "a.i64": -(2**40),
    "a.f32": 1.5,
    "a.bytes": b"\xff\x00",
    "a.strings": ["x", "", "ÿ"],
    "a.numbers": [1, -2, 3],
    "a.floats": [1, 2.5],
    "a.bools": [True, False],
    "a.numpy": np.arange(5, dtype=np.int16),
    "a.numpy2": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "a.scalar": np.float64(0.1),
    "a.typed": ggmill.Typed(3, "u16"),
    "a.empty": ggmill.Typed([], "[string]"),
    "a.nested": ggmill.Typed([["a"], ["b", "c"]], "[[string]]"),
}

TYPES = {
    "a.bool": "bool",
    "a.u32": "u32",
    "a.i32": "i32",
    "a.u64": "u64",
    "a.i64": "i64",
    "a.f32": "f32",
    "a.strings": "[string]",
    "a.numbers": "[i32]",
    "a.floats": "[f32]",
    "a.bools": "[bool]",
    "a.numpy": "[i16]",
    "a.scalar": "f64",
    "a.typed": "u16",
    "a.empty": "[string]",
}


def tensors() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((4, 256)).astype(np.float32)
    return {
        "f32": values,
        "f16": values.astype(np.float16),
        "turned": values.T,
        "big": values.astype(">f4"),
        "i8": np.arange(-4, 4, dtype=np.int8).reshape(2, 2, 2),
        "i64": np.array([-(2**40)]),
        "q4_k": ggmill.Blocks(ggmill.quants.quantize(values, "Q4_K"), "Q4_K"),
        "bf16": ggmill.Blocks(ggmill.quants.quantize(values, "BF16"), "BF16"),
    }


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_round_trip(tmp_path: Path, big_endian: bool, version: int) -> None:
    if version == 2 and big_endian:
        pytest.skip("version 2 has no byte order")
    path = tmp_path / "made.gguf"
    given = tensors()
    told: list[tuple[int, int, str]] = []
    ggmill.write(
        path,
        VALUES,
        given,
        big_endian=big_endian,
        version=version,
        progress=lambda done, total, name: told.append((done, total, name)),
    )
    assert told[-1][0] == told[-1][1] == sum(t.nbytes for t in ggmill.open(path).tensors.values())
    model = ggmill.open(path)
    assert model.byteorder == ("big" if big_endian else "little")
    assert model.version == version
    assert list(model.metadata) == list(VALUES)
    for key, name in TYPES.items():
        assert model.metadata.type(key) == name
    assert model.metadata["a.bytes"] == "\udcff\x00"
    assert model.metadata["a.strings"] == ["x", "", "ÿ"]
    assert model.metadata["a.numpy"].numpy().tolist() == [0, 1, 2, 3, 4]
    assert model.metadata["a.numpy2"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert model.metadata["a.nested"] == [["a"], ["b", "c"]]
    assert model.metadata["a.scalar"] == 0.1
    assert model.metadata["a.bools"].numpy().tolist() == [True, False]
    for name, array in given.items():
        tensor = model.tensors[name]
        if isinstance(array, ggmill.Blocks):
            assert tensor.type == array.type
            assert np.array_equal(tensor.numpy(), array.data)
            expected = ggmill.quants.dequantize(array.data, array.type)
            assert np.array_equal(tensor.dequantize(), expected)
        else:
            assert np.array_equal(tensor.numpy(), array)
            assert np.array_equal(tensor.dequantize(rows=0), array.reshape(-1, array.shape[-1])[0])
    assert ggmill.check(path, ignore=["all"]).findings == []


def test_copies_of_models_are_identical(llama: Path, tmp_path: Path) -> None:
    model = ggmill.open(llama)
    ggmill.write(tmp_path / "again.gguf", model.metadata, model.tensors)
    assert (tmp_path / "again.gguf").read_bytes() == llama.read_bytes()
    big = tmp_path / "big.gguf"
    ggmill.write(big, model.metadata, model.tensors, big_endian=True)
    assert ggmill.diff(llama, big).same
    ggmill.write(tmp_path / "little.gguf", ggmill.open(big).metadata, ggmill.open(big).tensors)
    assert (tmp_path / "little.gguf").read_bytes() == llama.read_bytes()


def test_deferred_data(llama: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    values = rng.standard_normal((4, 64)).astype(np.float32)
    blocks = ggmill.quants.quantize(values, "Q8_0")
    alive: list[str] = []

    def make(name: str, data: object) -> object:
        # The previous array is released before the next one is created.
        assert alive == []
        array = np.array(getattr(data, "data", data))
        alive.append(name)
        weakref.finalize(array, alive.remove, name)
        return ggmill.Blocks(array, "Q8_0") if isinstance(data, ggmill.Blocks) else array

    held = {"a": values, "b": ggmill.Blocks(blocks, "Q8_0"), "c": values.astype(">f4")}
    later = {
        "a": ggmill.Deferred("F32", (4, 64), lambda: make("a", held["a"])),  # type: ignore[arg-type,return-value]
        "b": ggmill.Deferred("q8_0", [4, 64], lambda: make("b", held["b"])),  # type: ignore[arg-type,return-value]
        "c": ggmill.Deferred("F32", (4, 64), lambda: make("c", held["c"])),  # type: ignore[arg-type,return-value]
    }
    ggmill.write(tmp_path / "held.gguf", {"k": 1}, held)
    ggmill.write(tmp_path / "later.gguf", {"k": 1}, later)
    assert (tmp_path / "later.gguf").read_bytes() == (tmp_path / "held.gguf").read_bytes()
    # Tensors of a model that is not mapped are also read one by one.
    model = ggmill.open(llama, mmap=False)
    ggmill.write(tmp_path / "again.gguf", model.metadata, model.tensors)
    assert (tmp_path / "again.gguf").read_bytes() == llama.read_bytes()

    def fails() -> npt.NDArray[np.float32]:
        raise ZeroDivisionError("on the way")

    path = tmp_path / "made.gguf"
    for wrong, error in (
        (fails, ZeroDivisionError),
        (lambda: values[:2], ggmill.ArgumentError),
        (lambda: values.astype(np.float16), ggmill.ArgumentError),
        (lambda: values.astype(np.complex64), ggmill.ArgumentError),
    ):
        with pytest.raises(error):
            ggmill.write(path, {}, {"a": ggmill.Deferred("F32", (4, 64), wrong)})
        assert not path.exists()
    assert len(list(tmp_path.iterdir())) == 3


def test_example_of_the_specification(tmp_path: Path, expected: Path) -> None:
    """The file is identical to that of gguf."""
    example = expected / "writer-example.gguf"
    model = ggmill.open(example)
    ggmill.write(tmp_path / "example.gguf", model.metadata, model.tensors)
    assert (tmp_path / "example.gguf").read_bytes() == example.read_bytes()


def test_invalid_values(tmp_path: Path) -> None:
    path = tmp_path / "made.gguf"
    for value, match in (
        (None, "cannot be a metadata value"),
        (object(), "cannot be a metadata value"),
        (2**70, "out of range for all integer types"),
        ([], "has no element type"),
        (["a", 1], "elements of different types: string, u32"),
        ({"a": 1}, "."),
        (ggmill.Typed(-1, "u8"), "is not a u8"),
        (ggmill.Typed("a", "f32"), "is not a f32"),
        (ggmill.Typed(1, "u128"), "is not a metadata value type"),
    ):
        if isinstance(value, dict):
            continue
        with pytest.raises(ggmill.Error, match=match) as raised:
            ggmill.write(path, {"k": value})
        assert 'key' in str(raised.value)
        assert raised.value.subject is not None and "k" in raised.value.subject
    for array, match in (
        (np.zeros(3, np.complex64), "complex64 has no tensor type"),
        (np.float32(1), "0 dimensions"),
        (ggmill.Blocks(np.zeros(5, np.uint8), "Q8_0"), "multiple of 34"),
        (ggmill.Blocks(np.zeros(5, np.int8), "Q8_0"), "uint8"),
    ):
        with pytest.raises(ggmill.ArgumentError, match=match) as raised:
            ggmill.write(path, {}, {"t": array})
        assert raised.value.subject == "tensor 't'"
    assert list(tmp_path.iterdir()) == []


def test_failed_writes_leave_no_output(tmp_path: Path) -> None:
    path = tmp_path / "made.gguf"
    arrays = {"a": np.zeros(1 << 20, np.float32), "b": np.zeros(1 << 20, np.float32)}
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError) as existing:
        ggmill.write(path, {}, arrays)
    assert isinstance(existing.value, ggmill.OutputExistsError)
    assert existing.value.path == str(path)

    def failing(done: int, total: int, tensor: str) -> None:
        raise KeyError(tensor)

    with pytest.raises(KeyError, match="a"):
        ggmill.write(path, {}, arrays, overwrite=True, progress=failing)
    with pytest.raises(ggmill.StoppedError):
        ggmill.write(path, {}, arrays, overwrite=True, progress=lambda *_: False)
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ggmill.NoSuchFileError):
        ggmill.write(tmp_path / "none" / "made.gguf", {})
    with pytest.raises(ggmill.ArgumentError, match="version 1"):
        ggmill.write(path, {}, version=1)

"""Quantization of arrays, compared with the blocks of libggml 0.25.3."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import ggmill
import numpy as np
import pytest
from conftest import ROOT

VECTORS = ROOT / "crates" / "ggmill-quant" / "tests" / "vectors"


@pytest.fixture(scope="module")
def inputs() -> ModuleType:
    """Return the script that wrote the vectors, which generates the input of the reference."""
    spec = importlib.util.spec_from_file_location(
        "quant_vectors", ROOT / "conformance" / "quant_vectors.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.txt")), ids=lambda path: path.stem)
def test_blocks_match_the_reference(path: Path, inputs: ModuleType) -> None:
    lines = path.read_text().splitlines()
    seed = int(lines[0].removeprefix("seed "))
    compared = set[str]()
    for line in lines[1:]:
        word, fill, kind, shape, expected = line.split(" ")
        if expected == "abort":
            continue
        if word == "dequantize":
            blocks = made_blocks(inputs, path.stem, fill, seed + int(kind), int(shape))
            values = ggmill.quants.dequantize(blocks, path.stem)
            bits = values.view(np.uint32).copy()
            bits[np.isnan(values)] = 0x7FC00000
            assert f"{inputs.digest(bits.tobytes()):016x}" == expected, line
        elif word == "sample" or (fill in ("heavy", "outlier") and shape == "3x768"):
            rows, length = (int(number) for number in shape.split("x"))
            table, weights = inputs.case(fill, kind, seed, rows, length)
            found = ggmill.quants.quantize(table, path.stem, imatrix=weights).tobytes()
            shown = found.hex() if word == "sample" else f"{inputs.digest(found):016x}"
            assert shown == expected, line
        else:
            continue
        compared.add(word)
    # There is no decoder for Q8_1.
    assert compared == {"sample", "quantize", "dequantize"} - (
        {"dequantize"} if path.stem == "Q8_1" else set()
    )


def made_blocks(
    inputs: ModuleType, name: str, fill: str, seed: int, count: int
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the blocks that the reference decoded."""
    size = ggmill.TENSOR_TYPES[name].type_size * count
    if fill == "random":
        return np.frombuffer(inputs.random_blocks(seed, size), np.uint8)
    return np.full(size, int(fill, 16), np.uint8)


@pytest.mark.parametrize(
    "name", [name for name, facts in ggmill.TENSOR_TYPES.items() if facts.encodes]
)
def test_every_type_and_shape(name: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal((2, 3, 5, 512)).astype(np.float32)
    weights = np.ones(512, np.float32)
    facts = ggmill.quants.tensor_type(name)
    blocks = ggmill.quants.quantize(values, name.lower(), imatrix=weights, threads=3)
    assert blocks.shape == (2, 3, 5, facts.row_bytes(512))
    assert blocks.dtype == np.uint8
    one = ggmill.quants.quantize(values[1, 2, 3], name, imatrix=weights, threads=1)
    assert np.array_equal(one, blocks[1, 2, 3])
    strided = ggmill.quants.quantize(values[:, ::2], name, imatrix=weights)
    assert np.array_equal(strided, blocks[:, ::2])
    if not facts.decodes:
        return
    back = ggmill.quants.dequantize(blocks, name)
    assert back.shape == values.shape
    error = np.sqrt(np.mean((back - values) ** 2)) / np.sqrt(np.mean(values**2))
    assert error < 0.9


def test_importance_weights_per_expert() -> None:
    rng = np.random.default_rng(2)
    values = rng.standard_normal((3, 4, 256))
    weights = rng.random((3, 256))
    blocks = ggmill.quants.quantize(values, "IQ2_XXS", imatrix=weights)
    for number in range(3):
        alone = ggmill.quants.quantize(values[number], "IQ2_XXS", imatrix=weights[number])
        assert np.array_equal(blocks[number], alone)


def test_invalid_arguments() -> None:
    ones = np.ones((2, 256), np.float32)
    quantize, dequantize = ggmill.quants.quantize, ggmill.quants.dequantize
    for wrong, match in (
        (lambda: quantize(ones, "Q9_X"), "not a tensor type"),
        (lambda: quantize(ones, 99), "not a tensor type"),
        (lambda: quantize(ones[:, :100], "Q4_K"), "row length 100 is not a multiple"),
        (lambda: quantize(np.float32(1), "Q4_K"), "0 dimensions"),
        (lambda: quantize(np.array(["a"]), "Q8_0"), "expected real numbers"),
        (lambda: quantize(ones * np.inf, "Q4_K"), "expected a finite value"),
        (lambda: quantize(ones, "IQ2_XXS"), "requires importance weights"),
        (lambda: quantize(ones, "Q4_K", imatrix=np.ones(255)), "imatrix of shape"),
        (lambda: quantize(ones, "Q4_K", imatrix=np.ones((3, 256))), "imatrix of shape"),
        (lambda: dequantize(np.zeros(143, np.uint8), "Q4_K"), "expected a multiple of 144"),
        (lambda: dequantize(np.zeros(144, np.int8), "Q4_K"), "expected uint8"),
    ):
        with pytest.raises(ggmill.ArgumentError, match=match):
            wrong()
    for wrong in (lambda: quantize(ones, "I8"), lambda: quantize(ones, "I32")):
        with pytest.raises(ggmill.UnsupportedError):
            wrong()


def test_row_numbers_in_errors_are_those_of_the_array() -> None:
    values = np.zeros((9000, 256), np.float32)
    values[8765, 17] = np.nan
    for threads in (1, 2):
        with pytest.raises(ggmill.ArgumentError, match="row 8765, column 17") as raised:
            ggmill.quants.quantize(values, "Q4_0", threads=threads)
        assert raised.value.kind == "non_finite"


def test_values_out_of_range() -> None:
    values = np.full((3, 64), 1e6, np.float32)
    ggmill.quants.quantize(values, "NVFP4")
    with pytest.raises(ggmill.ArgumentError, match="row 0, column 0") as raised:
        ggmill.quants.quantize(values, "NVFP4", check=True)
    assert raised.value.kind == "out_of_range"


def test_empty_arrays() -> None:
    assert ggmill.quants.quantize(np.zeros((0, 256)), "Q4_K").shape == (0, 144)
    assert ggmill.quants.dequantize(np.zeros((0, 144), np.uint8), "Q4_K").shape == (0, 256)
    assert ggmill.quants.quantize(np.zeros((4, 0)), "Q4_K").shape == (4, 0)


def test_type_properties() -> None:
    facts = ggmill.TENSOR_TYPES["Q4_K"]
    assert (facts.number, facts.block_size, facts.type_size) == (12, 256, 144)
    assert facts.bits_per_weight == 4.5
    assert facts.row_bytes(512) == 288
    assert not ggmill.TENSOR_TYPES["Q4_2"].decodes
    assert ggmill.quants.tensor_type(12) is facts

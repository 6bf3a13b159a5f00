"""ggmill.gguf against results of the package gguf in fixtures/gguf_reference.json."""

from __future__ import annotations

import json
import logging
import pickle
import struct
import subprocess
import sys
import warnings
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf_cases as cases
import numpy as np
import pytest

import ggmill.gguf as gguf
from ggmill.gguf._lazy_list import LazyList

REFERENCE = json.loads((Path(__file__).parent / "fixtures/gguf_reference.json").read_text())


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


# ---------------------------------------------------------------- writer


@pytest.mark.parametrize("label", REFERENCE["writer"])
def test_files_match_the_reference(label: str) -> None:
    found = cases.written(gguf, cases.writer_cases()[label])
    assert {name: cases.digest(data) for name, data in found.items()} == REFERENCE["writer"][label]


def test_key_methods_match_the_reference() -> None:
    assert cases.key_methods(gguf) == list(REFERENCE["keys"])
    found = {name: cases.digest(cases.written_key(gguf, name)) for name in REFERENCE["keys"]}
    assert found == REFERENCE["keys"]


@pytest.mark.parametrize("label", REFERENCE["refusals"])
def test_error_messages_match_the_reference(label: str) -> None:
    found = cases.outcome(lambda: cases.refusals()[label](gguf))
    # Some messages contain names of modules.
    assert json.loads(json.dumps(found)) == REFERENCE["refusals"][label]


def test_a_dry_run_names_the_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=1, dry_run=True)
    for name in ("a", "b"):
        writer.add_tensor(name, np.zeros(2, np.float32))
    with pytest.raises(SystemExit):
        writer.write_header_to_file()
    said = capsys.readouterr().out.splitlines()
    assert [Path(one).name for one in said] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- reader


@pytest.mark.parametrize("label", REFERENCE["hostile"])
def test_errors_of_damaged_files_match_the_reference(label: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(cases.hostile()[label])
    found = cases.outcome(lambda: gguf.GGUFReader(path))
    assert found == REFERENCE["hostile"][label]


@pytest.mark.parametrize("endian", ["LITTLE", "BIG"])
def test_round_trip(endian: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    cases.write_all(gguf, path, "held", endianess=gguf.GGUFEndian[endian])
    reader = gguf.GGUFReader(path)
    assert reader.byte_order == ("I" if (endian == "BIG") == (sys.byteorder == "big") else "S")
    assert reader.endianess == gguf.GGUFEndian[endian]
    assert isinstance(reader.fields, OrderedDict)
    assert list(reader.fields)[:3] == ["GGUF.version", "GGUF.tensor_count", "GGUF.kv_count"]
    assert isinstance(reader.data, np.memmap)
    tokens = reader.fields["tokenizer.ggml.tokens"]
    assert tokens.types == [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.STRING]
    assert tokens.contents() == [str(tokens.parts[i].tobytes(), "utf-8") for i in tokens.data]
    assert tokens.contents(-1) == tokens.contents()[-1]
    assert tokens.contents(slice(1)) == tokens.contents()[:1]
    assert sum(len(part) * part.itemsize for part in tokens.parts) > 20
    for tensor, (name, data, kind) in zip(reader.tensors, cases.tensors(gguf), strict=True):
        assert tensor.name == name
        assert tensor.data.shape == data.shape
        assert tensor.shape.tolist() == list(reversed(_elements(data, kind)))
        if kind is None:
            assert np.array_equal(tensor.data, data)
    assert reader.get_tensor(0).name == reader.tensors[0].name
    assert reader.get_field("no such key") is None


def _elements(data: np.ndarray[Any, Any], kind: Any) -> tuple[int, ...]:
    return data.shape if kind is None else gguf.quant_shape_from_byte_shape(data.shape, kind)


def test_writes_through_parts_reach_the_file_only_in_mode_r_plus(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    cases.write_all(gguf, path, "held")
    before = path.read_bytes()
    reader = gguf.GGUFReader(path, "c")
    reader.fields["x.add_uint32"].parts[-1][0] = 77
    assert reader.fields["x.add_uint32"].contents() == 77
    assert path.read_bytes() == before
    reader = gguf.GGUFReader(path, "r+")
    reader.fields["x.add_uint32"].parts[-1][0] = 77
    reader.tensors[1].data[0, 0] = 5
    reader.data.flush()
    del reader.data
    again = gguf.GGUFReader(path)
    assert again.fields["x.add_uint32"].contents() == 77
    assert again.tensors[1].data[0, 0] == 5
    with pytest.raises(ValueError, match="read-only"):
        again.fields["x.add_uint32"].parts[-1][0] = 78


def test_truncated_files_raise_value_error(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    cases.write_all(gguf, path, "held")
    whole = path.read_bytes()
    # The padding after the last tensor can be missing.
    for cut in [*range(1, 400), *range(400, len(whole) - 64, 101)]:
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError):
            gguf.GGUFReader(path)


def test_data_can_be_deleted_before_tensors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    cases.write_all(gguf, path, "held")
    reader = gguf.GGUFReader(path)
    del reader.data
    assert len(reader.tensors) == len(cases.tensors(gguf))


def test_lazy_lists_behave_like_lists() -> None:
    plain = [one * one for one in range(9)]

    def lazy() -> LazyList[int]:
        return LazyList(9, lambda index: index * index)

    made: list[int] = []
    LazyList(9, made.append)[3]
    assert made == [3], "only what is asked for is made"
    assert isinstance(lazy(), list)
    assert lazy() == plain
    assert plain == lazy()
    assert lazy() == lazy()
    assert [*lazy()] == plain
    assert list(lazy()) == plain
    assert lazy()[2:5] == plain[2:5]
    assert lazy()[-1] == 64
    assert lazy() + [1] == [*plain, 1]
    assert [1] + lazy() == [1, *plain]
    extended = [1]
    same = extended
    extended += lazy()
    assert same == [1, *plain]
    assert np.array(lazy()).tolist() == plain
    assert json.dumps(lazy()) == json.dumps(plain)
    assert pickle.loads(pickle.dumps(lazy())) == plain
    assert sorted(lazy(), reverse=True) == plain[::-1]
    assert list(reversed(lazy())) == plain[::-1]
    assert (16 in lazy(), 17 in lazy(), lazy().index(16)) == (True, False, 4)
    assert repr(lazy()) == repr(plain)
    changed = lazy()
    changed[0] = 5
    changed.append(6)
    assert changed == [5, *plain[1:], 6]
    assert changed[9] == 6
    assert bool(lazy())
    assert not LazyList(0, int)
    with pytest.raises(IndexError):
        lazy()[9]


# ---------------------------------------------------------------- quants


@pytest.mark.parametrize("name", REFERENCE["dequantize"])
def test_dequantize_matches_the_reference(name: str) -> None:
    kind = gguf.GGMLQuantizationType[name]
    found = gguf.dequantize(cases.blocks(gguf, name), kind)
    assert found.shape == (9, 512)
    assert cases.digest(cases.without_nan(found).tobytes()) == REFERENCE["dequantize"][name]


@pytest.mark.parametrize("name", REFERENCE["quantize"])
def test_quantize_matches_the_reference(name: str) -> None:
    kind = gguf.GGMLQuantizationType[name]
    found = gguf.quantize(cases.values(), kind)
    assert cases.digest(found.tobytes()) == REFERENCE["quantize"][name]
    lazy = gguf.quantize(gguf.LazyNumpyTensor.from_eager(cases.values()), kind)
    assert lazy.shape == found.shape
    assert np.array_equal(gguf.LazyNumpyTensor.to_eager(lazy), found)


BLOCK_TYPES = [kind for kind, (size, _) in gguf.GGML_QUANT_SIZES.items() if size > 1]


@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_block_types_round_trip(kind: Any) -> None:
    values = cases.values()[5:9]
    weights = None
    if kind.name in ("IQ2_XXS", "IQ2_XS", "IQ1_S"):
        with pytest.raises(NotImplementedError, match="importance matrix"):
            gguf.quantize(values, kind)
        weights = np.ones(512, np.float32)
    blocks = gguf.quantize(values, kind, imatrix=weights)
    assert blocks.dtype == np.uint8
    assert blocks.shape == gguf.quant_shape_to_byte_shape(values.shape, kind)
    again = gguf.dequantize(blocks, kind)
    assert again.dtype == np.float32
    assert np.corrcoef(again.ravel(), values.ravel())[0, 1] > 0.4
    # Arrays need not be contiguous.
    assert np.array_equal(gguf.quantize(values.T.copy().T, kind, imatrix=weights), blocks)


def test_non_finite_values_are_rejected() -> None:
    values = np.zeros((1, 32), np.float32)
    values[0, 3] = np.inf
    with pytest.raises(gguf.QuantError, match="Q8_0"):
        gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0)


def test_sizes_match_the_codecs() -> None:
    from ggmill._native import types

    known = {one["number"]: (one["name"], one["block_size"], one["type_size"]) for one in types()}
    for kind, (block_size, type_size) in gguf.GGML_QUANT_SIZES.items():
        assert known[int(kind)] == (kind.name, block_size, type_size)


@pytest.mark.parametrize(
    "name", ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"]
)
def test_grids_contain_the_values_of_blocks(name: str) -> None:
    traits: Any = getattr(gguf.quants, name)
    traits.init_grid()
    assert traits.grid.shape == (1, 1, *traits.grid_shape)
    assert set(np.unique(traits.grid)) == set(map(float, traits.grid_map))
    assert len(np.unique(traits.grid.reshape(traits.grid_shape), axis=0)) == traits.grid_shape[0]
    assert len(traits.grid_hex) % 4 == 0


# ---------------------------------------------------------------- names


def test_model_names_are_parsed_like_the_reference() -> None:
    for one, expected in zip(cases.model_ids(), REFERENCE["model_ids"], strict=True):
        assert list(gguf.Metadata.get_model_id_components(*one)) == expected, one


def test_tensor_names() -> None:
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    assert (
        names.get_name("model.layers.1.mlp.up_proj.weight", (".weight",)) == "blk.1.ffn_up.weight"
    )
    assert names.get_type("model.embed_tokens") == gguf.MODEL_TENSOR.TOKEN_EMBD
    assert names.get_name("model.layers.2.mlp.up_proj") is None
    assert names["blk.0.attn_q"] == "blk.0.attn_q"
    assert "lm_head" in names
    with pytest.raises(KeyError):
        names["nothing"]
    # A name map for one architecture does not affect those of others.
    gguf.get_tensor_name_map(gguf.MODEL_ARCH.ARCTIC, 1)
    llama = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    assert llama["model.layers.0.post_attention_layernorm"] == "blk.0.ffn_norm"


# ---------------------------------------------------------------- patch, and missing names


def installed_package() -> ModuleType:
    """Return a stand-in for an installed `gguf`: ggmill.gguf under another name, with slow parts."""
    package = ModuleType("other_gguf")
    for name in ("constants", "quants", "gguf_reader"):
        module = ModuleType(f"other_gguf.{name}")
        vars(module).update(
            {key: value for key, value in vars(getattr(gguf, name)).items() if key[:2] != "__"}
        )
        sys.modules[module.__name__] = module
        setattr(package, name, module)
    quants: Any = package.quants  # type: ignore[attr-defined]

    class Q8_0:
        qtype = gguf.GGMLQuantizationType.Q8_0

        @classmethod
        def can_quantize(cls, tensor: Any) -> bool:
            return tensor.shape[-1] % 32 == 0

        @classmethod
        def quantize(cls, tensor: Any) -> Any:
            raise AssertionError("the slow one")

        dequantize = quantize

    quants._type_traits = {Q8_0.qtype: Q8_0}
    quants.quantize = lambda data, qtype: quants._type_traits[qtype].quantize(data)
    quants.dequantize = lambda data, qtype: quants._type_traits[qtype].dequantize(data)
    return package


def test_patch_accelerates_an_installed_package(tmp_path: Path) -> None:
    package: Any = installed_package()
    assert gguf.patch(package) is package
    first = package.quants.quantize
    assert gguf.patch(package).quants.quantize is first, "twice is once"
    kind = gguf.GGMLQuantizationType
    for one in (kind.Q8_0, kind.Q4_K, kind.IQ4_XS):
        blocks = package.quantize(cases.values(), one)
        assert np.array_equal(blocks, gguf.quantize(cases.values(), one))
        assert np.array_equal(package.dequantize(blocks, one), gguf.dequantize(blocks, one))
    lazy = package.quants._type_traits[kind.Q8_0].quantize(
        gguf.LazyNumpyTensor.from_eager(cases.values())
    )
    assert isinstance(lazy, gguf.LazyNumpyTensor)
    with pytest.raises(gguf.QuantError):
        package.quantize(np.zeros((1, 33), np.float32), kind.Q8_0)
    path = tmp_path / "x.gguf"
    cases.write_all(gguf, path, "held")
    assert package.GGUFReader is package.gguf_reader.GGUFReader
    assert package.GGUFReader is not gguf.GGUFReader
    assert len(package.GGUFReader(path).tensors) == len(cases.tensors(gguf))


def test_missing_names_come_from_an_installed_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other: Any = ModuleType("gguf")
    other.something_new = 3
    monkeypatch.setitem(sys.modules, "gguf", other)
    with pytest.warns(gguf.FallbackWarning, match="something_new"):
        assert gguf.something_new == 3
    with pytest.raises(AttributeError, match="no_such_name"):
        gguf.no_such_name  # noqa: B018
    monkeypatch.setitem(sys.modules, "gguf", gguf)
    with pytest.raises(AttributeError), warnings.catch_warnings():
        warnings.simplefilter("error")
        gguf.something_new  # noqa: B018


# ---------------------------------------------------------------- lazy tensors


def test_lazy_tensors_are_computed_when_they_are_written(tmp_path: Path) -> None:
    calls: list[int] = []

    def load(number: int) -> np.ndarray[Any, Any]:
        calls.append(number)
        return np.full((2, 32), number, np.float32)

    meta = gguf.LazyNumpyTensor.meta_with_dtype_and_shape(np.float32, (2, 32))
    lazy = gguf.LazyNumpyTensor(meta=meta, args=(3,), func=load)
    sum_of = (lazy + 1).reshape((4, 16)).T.astype(np.float16)
    assert sum_of.shape == (16, 4)
    assert sum_of.dtype == np.float16
    assert calls == []
    sum_of.tofile(tmp_path / "x")
    assert calls == [3]
    assert (tmp_path / "x").read_bytes() == np.full(64, 4, np.float16).tobytes()
    chunked = gguf.lazy.LazyChunkedTensor(
        [lambda: load(1), lambda: load(2)], (4, 32), np.float32
    ).quantize(gguf.GGMLQuantizationType.Q8_0)
    assert chunked.shape == (4, 34)
    with open(tmp_path / "y", "wb") as file:
        chunked.tofile(file)
    whole = np.concatenate([load(1), load(2)])
    expected = gguf.quantize(whole, gguf.GGMLQuantizationType.Q8_0)
    assert (tmp_path / "y").read_bytes() == expected.tobytes()
    with pytest.raises(TypeError, match="chunks"):
        np.array(chunked)


# ---------------------------------------------------------------- programs


def run(name: str, *arguments: Any, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"ggmill.gguf.scripts.{name}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, input=typed, check=False)


def test_programs(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.gguf", tmp_path / "y.gguf"
    cases.write_blocks(gguf, path)
    before = path.read_bytes()
    said = json.loads(run("gguf_dump", "--json", path).stdout)
    assert said["metadata"]["general.name"]["value"] == "swapped"
    assert said["tensors"]["f32"]["shape"] == [4, 4]
    assert run("gguf_convert_endian", path, "big", typed="no\n").returncode == 0
    assert path.read_bytes() == before
    assert run("gguf_convert_endian", path, "big", typed="YES\n").returncode == 0
    assert gguf.GGUFReader(path).endianess == gguf.GGUFEndian.BIG
    assert run("gguf_convert_endian", path, "little", typed="YES\n").returncode == 0
    assert path.read_bytes() == before
    assert run("gguf_set_metadata", path, "llama.block_count", 5, "--force").returncode == 0
    assert gguf.GGUFReader(path).fields["llama.block_count"].contents() == 5
    assert run("gguf_set_metadata", path, "general.name", 5, "--force").returncode == 1
    done = run("gguf_new_metadata", path, copy, "--general-name", "other")
    assert done.returncode == 0, done.stderr
    reader = gguf.GGUFReader(copy)
    assert reader.fields["general.name"].contents() == "other"
    assert [one.data.tobytes() for one in reader.tensors] == [
        one.data.tobytes() for one in gguf.GGUFReader(path).tensors
    ]
    assert "uuid" in run("gguf_hash", copy).stdout


def test_string_offsets_in_both_byte_orders() -> None:
    from ggmill._native import string_offsets

    for order, big in (("<", False), (">", True)):
        texts = [b"", b"a", b"\xff" * 300]
        data = b"x" + b"".join(struct.pack(f"{order}Q", len(one)) + one for one in texts)
        found = string_offsets(np.frombuffer(data, np.uint8), 1, 3, big_endian=big)
        assert found.tolist() == [1, 9, 18, len(data)]
        with pytest.raises(ValueError):
            string_offsets(np.frombuffer(data[:-1], np.uint8), 1, 3, big_endian=big)

"""Models, metadata and tensors, compared with what gguf 0.19.0 reads from the same files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import ggmill
import numpy as np
import pytest

REAL = [
    "ggml-vocab-bert-bge.gguf",
    "ggml-vocab-llama.v1.gguf",
    "ggml-vocab-phi-3.gguf",
    "mobilenetv3_3class_v3_fp16.gguf",
]


def plain(value: Any) -> Any:
    """Decode a value of the recorded documents, in which floats are bit patterns."""
    return float(value["repr"]) if isinstance(value, dict) else value


def digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("name", REAL)
def test_models_match_the_reference(name: str, mmap: bool, real: Path, expected: Path) -> None:
    document = json.loads((expected / f"{name}.json").read_text())
    with ggmill.open(real / name, mmap=mmap) as model:
        assert model.version == document["version"]
        assert model.byteorder == document["endian"]
        assert model.alignment == document["alignment"]
        assert model.nbytes == document["bytes"]
        assert list(model.metadata) == [entry["key"] for entry in document["metadata"]]
        for entry in document["metadata"]:
            value = model.metadata[entry["key"]]
            if entry["type"] != "array":
                assert model.metadata.type(entry["key"]) == entry["type"]
                assert value == plain(entry["value"])
                assert type(value) is type(plain(entry["value"]))
                continue
            assert isinstance(value, ggmill.Array)
            assert value.element_type == entry["element"]
            assert len(value) == entry["length"]
            first = [plain(element) for element in entry["first"]]
            assert value[: len(first)] == first
        assert list(model.tensors) == [info["name"] for info in document["tensors"]]
        for info in document["tensors"]:
            tensor = model.tensors[info["name"]]
            assert (tensor.type, list(tensor.ne)) == (info["type"], info["shape"])
            assert (tensor.offset, tensor.nbytes) == (info["offset"], info["size"])
            assert tensor.shape == tuple(reversed(tensor.ne))
            assert digest(tensor.raw().tobytes()) == info["sha256"]


def test_arrays_are_sequences(vocabulary: Path) -> None:
    tokens = ggmill.open(vocabulary).metadata["tokenizer.ggml.tokens"]
    everything = tokens.tolist()
    assert tokens[0] == everything[0] == "<unk>"
    assert tokens[-1] == everything[-1]
    assert tokens[3:40:7] == everything[3:40:7]
    assert tokens[40:3:-9] == everything[40:3:-9]
    assert tokens[:] == list(tokens) == everything == tokens
    assert "<unk>" in tokens
    with pytest.raises(IndexError):
        tokens[len(tokens)]
    assert tokens.numpy().dtype == object
    scores = ggmill.open(vocabulary).metadata["tokenizer.ggml.scores"]
    assert scores.numpy().dtype == np.dtype("<f4")
    assert scores.numpy().tolist() == scores.tolist()
    assert not scores.numpy().flags.writeable


def test_metadata_is_a_mapping(vocabulary: Path) -> None:
    metadata = ggmill.open(vocabulary).metadata
    assert metadata.get("general.nothing") is None
    assert "general.architecture" in metadata
    assert "general.nothing" not in metadata
    assert 7 not in metadata
    with pytest.raises(KeyError):
        metadata["general.nothing"]
    with pytest.raises(KeyError):
        metadata.type("general.nothing")
    assert dict(metadata.items())["general.architecture"] == metadata["general.architecture"]
    entries = metadata.entries()
    assert [entry.key for entry in entries] == list(metadata)
    data = vocabulary.read_bytes()
    for entry in entries:
        assert data[entry.offset + 8 :].startswith(entry.key.encode())
        if entry.type == "string":
            value = data[entry.value_offset : entry.value_offset + entry.size]
            assert value[8:].decode() == metadata[entry.key]


def test_views_are_read_only(mobilenet: Path) -> None:
    model = ggmill.open(mobilenet)
    tensor = model.tensors["features.0.0.weight"]
    array = tensor.numpy()
    assert array.shape == tensor.shape == (16, 3, 3, 3)
    assert np.shares_memory(array, tensor.raw())
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0, 0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True
    before = array.copy()
    model.close()
    assert model.closed
    assert np.array_equal(array, before)
    for use in (
        lambda: model.version,
        lambda: model.metadata["general.architecture"],
        lambda: model.tensors["features.0.0.weight"],
        lambda: ggmill.hash(model),
        lambda: ggmill.Tokenizer(model),
    ):
        with pytest.raises(ggmill.ClosedError, match="is closed") as raised:
            use()
        assert raised.value.kind == "closed"
    model.close()


def test_path_types(mobilenet: Path, tmp_path: Path) -> None:
    class Path2:
        def __fspath__(self) -> bytes:
            return os.fsencode(mobilenet)

    for path in (mobilenet, str(mobilenet), os.fsencode(mobilenet), Path2()):
        assert ggmill.open(path).path == str(mobilenet)
    with pytest.raises(TypeError):
        ggmill.open(3)  # type: ignore[arg-type]
    odd = tmp_path / "ünï\udcff.gguf"
    odd.write_bytes(mobilenet.read_bytes())
    assert len(ggmill.open(odd).tensors) == len(ggmill.open(mobilenet).tensors)
    assert ggmill.hash(odd).model == ggmill.hash(mobilenet).model


def test_dequantize_rows(llama: Path) -> None:
    model = ggmill.open(llama)
    tensor = model.tensors["token_embd.weight"]
    whole = tensor.dequantize()
    assert whole.dtype == np.float32
    assert np.array_equal(whole, tensor.numpy())
    assert np.array_equal(tensor.dequantize(rows=3), whole[3])
    assert np.array_equal(tensor.dequantize(rows=-1), whole[-1])
    assert np.array_equal(tensor.dequantize(rows=slice(5, 9)), whole[5:9])
    assert np.array_equal(tensor.dequantize(rows=slice(9, 5, -1)), whole[9:5:-1])
    assert np.array_equal(tensor.dequantize(rows=slice(0, 100, 9)), whole[0:100:9])
    assert tensor.dequantize(rows=slice(5, 5)).shape == (0, 64)
    assert tensor.dequantize(np.float16).dtype == np.float16
    assert np.array_equal(tensor.dequantize(np.float64, threads=3), whole.astype(np.float64))
    for rows in (512, -513, range(510, 514)):
        with pytest.raises(IndexError):
            tensor.dequantize(rows=rows)
    assert np.array_equal(np.asarray(tensor), whole)
    assert np.array_equal(np.from_dlpack(tensor), whole)
    read = ggmill.open(llama, mmap=False).tensors["token_embd.weight"]
    assert np.array_equal(read.dequantize(rows=slice(5, 500)), whole[5:500])


def test_shard_set(llama: Path, tmp_path: Path) -> None:
    plan = ggmill.split(llama, tmp_path / "stories", max_tensors=10)
    assert len(plan.paths) > 2
    whole = ggmill.open(llama)
    for path in plan.paths:
        model = ggmill.open(path)
        assert model.paths == plan.paths
        assert list(model.tensors) == list(whole.tensors)
        for name, tensor in whole.tensors.items():
            assert np.array_equal(model.tensors[name].numpy(), tensor.numpy())
    assert model.tensors["output_norm.weight"].file == len(plan.paths) - 1
    assert model.metadata_of(1)["split.no"] == 1
    assert len(ggmill.open(plan.paths[1], alone=True).tensors) == 10
    with pytest.raises(ggmill.ArgumentError):
        model.metadata_of(99)
    os.remove(plan.paths[1])
    with pytest.raises(ggmill.FormatError) as raised:
        ggmill.open(plan.paths[0])
    assert raised.value.kind == "shards"


def test_notebooks_show_models(llama: Path) -> None:
    with ggmill.open(llama) as model:
        page = model._repr_html_()
        assert "llama" in page and "token_embd.weight" in page
        assert "general.architecture" in model.metadata._repr_html_()
        assert "<td" in model.tensors._repr_html_()
        assert "llama" in model.text()
    assert "closed" in model._repr_html_()


def test_text_of_models_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    ggmill.write(path, {"general.architecture": "<script>\x1b[31m", "a\udcffb": "\udcfe"})
    model = ggmill.open(path)
    assert model.metadata["a\udcffb"] == "\udcfe"
    for page in (model._repr_html_(), model.metadata._repr_html_()):
        assert "<script>" not in page
        assert "\x1b" not in page
        page.encode()

"""Operations on whole models."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import ggmill
import numpy as np
import pytest


@pytest.mark.parametrize("type", ["F32", "F16", "BF16", "Q8_0"])
def test_conversions_match_the_reference(
    type: str, real: Path, expected: Path, tmp_path: Path
) -> None:
    name = f"tinystories260K-{type.lower()}.gguf"
    document = json.loads((expected / "converted" / f"{name}.json").read_text())
    plan = ggmill.convert(real / "tinystories260K", tmp_path / name, type)
    data = Path(plan.path).read_bytes()
    assert plan.written and plan.nbytes == len(data) == document["bytes"]
    assert hashlib.sha256(data).hexdigest() == document["sha256"]


def test_a_conversion_quantizes_in_the_same_pass(real: Path, llama: Path, tmp_path: Path) -> None:
    one = ggmill.convert(real / "tinystories260K", tmp_path / "one.gguf", "Q4_0")
    two = ggmill.quantize(llama, tmp_path / "two.gguf", "Q4_0")
    assert Path(one.path).read_bytes() == Path(two.path).read_bytes()
    tensors = ggmill.open(one.path).tensors
    assert tensors["blk.0.ffn_up.weight"].type == "Q4_0"
    sized = ggmill.convert(real / "tinystories260K", tmp_path / "sized.gguf", target_bpw=8.0)
    assert sized.nbytes < llama.stat().st_size / 2
    no_vocabulary = ggmill.convert(
        real / "tinystories260K", tmp_path / "weights.gguf", "F16", no_vocab=True, name="Mine"
    )
    metadata = ggmill.open(no_vocabulary.path).metadata
    assert metadata["general.name"] == "Mine"
    assert "tokenizer.ggml.tokens" not in metadata


def test_legacy_file(real: Path, tmp_path: Path) -> None:
    legacy = real / "ggml-vocab.ggjt-v1.bin"
    with pytest.raises(ggmill.ArgumentError, match="cannot be converted to a different type"):
        ggmill.convert(legacy, tmp_path / "old.gguf", "F16")
    with pytest.raises(ggmill.FormatError) as raised:
        ggmill.open(legacy)
    assert raised.value.kind == "not_gguf"


def test_quantize(llama: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    planned = ggmill.quantize(llama, path, "Q8_0", dry_run=True)
    assert not planned.written and not path.exists()
    told: list[tuple[int, int, str]] = []
    plan = ggmill.quantize(
        llama,
        path,
        "Q8_0",
        tensor_types={"attn_v": "F16"},
        progress=lambda *facts: told.append(facts),
    )
    assert planned.nbytes != plan.nbytes == path.stat().st_size
    assert told[-1][0] == told[-1][1]
    tensors = ggmill.open(path).tensors
    assert tensors["blk.0.attn_v.weight"].type == "F16"
    tensor = tensors["blk.0.ffn_up.weight"]
    values = ggmill.open(llama).tensors["blk.0.ffn_up.weight"].numpy()
    assert np.array_equal(tensor.numpy(), ggmill.quants.quantize(values, "Q8_0"))
    with pytest.raises(ggmill.ArgumentError) as raised:
        ggmill.quantize(path, tmp_path / "again.gguf", "Q4_0")
    assert raised.value.kind == "quantized"
    assert raised.value.subject is not None and "tensor" in raised.value.subject
    for arguments, match in (
        ({"type": "Q9_9"}, "not a type to quantize to"),
        ({}, "a type or a size"),
        ({"type": "Q8_0", "target_bpw": 4.0}, "a type or a size"),
        ({"type": "Q8_0", "output_tensor_type": "X"}, "expected a tensor type for weights"),
        ({"type": "Q8_0", "max_size": 1, "max_tensors": 1}, "one of them"),
    ):
        with pytest.raises(ggmill.ArgumentError, match=match):
            ggmill.quantize(llama, tmp_path / "wrong.gguf", **arguments)  # type: ignore[arg-type]
    with pytest.raises(ggmill.ArgumentError, match="cannot be the output"):
        ggmill.quantize(llama, llama, "Q8_0", overwrite=True)
    assert ggmill.hash(llama).model


def test_calibrated_rounding_changes_only_the_contents_of_blocks(llama: Path, tmp_path: Path) -> None:
    tokens = [number * 37 % 509 + 3 for number in range(128)]
    plain = ggmill.quantize(llama, tmp_path / "plain.gguf", "Q4_0", pure=True)
    found = ggmill.quantize(
        llama,
        tmp_path / "calibrated.gguf",
        "Q4_0",
        pure=True,
        calibrate=tokens,
        calibrate_context=32,
    )
    assert found.nbytes == plain.nbytes
    before, after = (Path(plan.path).read_bytes() for plan in (plain, found))
    assert before != after
    types = [{t.name: t.type for t in ggmill.open(plan.path).tensors.values()} for plan in (plain, found)]
    assert types[0] == types[1]
    with pytest.raises(ggmill.Error, match="expected at least 1024"):
        ggmill.quantize(llama, tmp_path / "x.gguf", "Q4_0", calibrate="A short text.")


def test_output_does_not_depend_on_the_number_of_threads(llama: Path, tmp_path: Path) -> None:
    files = [
        Path(ggmill.quantize(llama, tmp_path / f"{n}.gguf", "Q5_0", threads=n).path).read_bytes()
        for n in (1, 2, 5)
    ]
    assert files[0] == files[1] == files[2]


def test_split_and_merge(llama: Path, tmp_path: Path) -> None:
    plan = ggmill.split(llama, tmp_path / "s", max_size=200_000, no_tensor_first=True)
    assert len(ggmill.open(plan.paths[0], alone=True).tensors) == 0
    merged = ggmill.merge(plan.paths[1], tmp_path / "one.gguf")
    assert ggmill.diff(llama, merged.path).same
    again = ggmill.merge(list(reversed(plan.paths)), tmp_path / "two.gguf")
    assert Path(again.path).read_bytes() == Path(merged.path).read_bytes()
    assert ggmill.hash(plan.paths[0]) == ggmill.hash(llama)
    with pytest.raises(ggmill.OutputExistsError):
        ggmill.split(llama, tmp_path / "s", max_size=200_000, no_tensor_first=True)
    with pytest.raises(ggmill.ArgumentError, match="no shards"):
        ggmill.merge([], tmp_path / "three.gguf")
    with pytest.raises(ggmill.Error):
        ggmill.split(llama, tmp_path / "t", max_tensors=0)


def test_merge_of_byte_parts(llama: Path, tmp_path: Path) -> None:
    data = llama.read_bytes()
    middle = len(data) // 2
    (tmp_path / "m.gguf.part1of2").write_bytes(data[:middle])
    (tmp_path / "m.gguf.part2of2").write_bytes(data[middle:])
    plan = ggmill.merge(tmp_path / "m.gguf.part2of2", tmp_path / "m.gguf")
    assert Path(plan.path).read_bytes() == data


def test_estimate(llama: Path) -> None:
    model = ggmill.open(llama)
    found = ggmill.estimate(llama, context=1024)
    (host,) = found.devices
    assert host.name == "CPU" and found.total == host.total
    # Weights are aligned to 32 bytes.
    assert host.weights == sum((tensor.nbytes + 31) // 32 * 32 for tensor in model.tensors.values())
    assert found.document["schema"] == "ggmill.estimate/1"
    less = ggmill.estimate(model, context=1024, cache_type=("Q8_0", "F16"))
    assert less.devices[0].keys < host.keys and less.devices[0].values == host.values
    there = ggmill.estimate(llama, context=1024, layers=99, shares=[1, 1])
    assert [device.name for device in there.devices] == ["CPU", "GPU0", "GPU1"]
    assert there.layers == there.layer_count and there.devices[1].keys > 0
    back = ggmill.estimate(llama, layers=99, overrides={r"ffn_.*\.weight": "CPU"})
    assert back.devices[0].weights > ggmill.estimate(llama, layers=99).devices[0].weights
    fitted = ggmill.estimate(llama, fit=1 << 30)
    assert fitted.devices[1].total <= 1 << 30 and fitted.layers == fitted.layer_count
    beside = ggmill.estimate(llama, context=1024, draft=llama)
    assert beside.devices[0].weights == 2 * host.weights
    for wrong in (
        {"cache_type": "Q9"},
        {"flash_attention": "never"},
        {"overrides": {"(": "CPU"}},
        {"overrides": {"a": "there"}},
        {"context": 0},
        {"shares": [0.0]},
    ):
        with pytest.raises(ggmill.ArgumentError):
            ggmill.estimate(llama, layers=1, **wrong)  # type: ignore[arg-type]


def test_hash(mobilenet: Path) -> None:
    hashes = ggmill.hash(mobilenet, ["sha256", "xxh64", "uuid"])
    assert set(hashes.model) == {"sha256", "xxh64", "uuid"}
    tensors = ggmill.open(mobilenet).tensors
    assert list(hashes.tensors) == list(tensors)
    for name, tensor in tensors.items():
        digest = hashlib.sha256(tensor.raw().tobytes()).hexdigest()
        assert hashes.tensors[name]["sha256"] == digest
    everything = b"".join(tensor.raw().tobytes() for tensor in tensors.values())
    assert hashes.model["sha256"] == hashlib.sha256(everything).hexdigest()
    assert ggmill.hash(mobilenet, "blake3", tensors=False).tensors == {}
    with pytest.raises(ggmill.ArgumentError, match="expected one of"):
        ggmill.hash(mobilenet, "md5")


def test_diff(llama: Path, tmp_path: Path) -> None:
    same = ggmill.diff(llama, llama)
    assert same.same and same.keys == [] and same.tensors == []
    small = ggmill.quantize(llama, tmp_path / "small.gguf", "Q8_0").path
    with ggmill.open(small) as model:
        found = ggmill.diff(llama, model, data=True)
    assert not found.same
    assert found.document["schema"] == "ggmill.diff/1"
    changed = {tensor["name"]: tensor for tensor in found.tensors}
    tensor = changed["blk.0.ffn_up.weight"]
    assert tensor["b"]["type"] == "Q8_0"
    assert 0 < tensor["data"]["relative"] < 0.02
    assert "blk.0.ffn_up.weight" in str(found)
    only_keys = ggmill.diff(llama, small, tensors=False, keys=["general.file_type"])
    assert [key["key"] for key in only_keys.keys] == ["general.file_type"]


def test_notebooks_show_differences(llama: Path, tmp_path: Path) -> None:
    same = ggmill.diff(llama, llama)
    assert "no differences" in same._repr_html_() and "<table" not in same._repr_html_()
    assert repr(same) == f"<DiffReport {str(llama)!r} → {str(llama)!r}: no differences>"
    small = ggmill.quantize(llama, tmp_path / "small.gguf", "Q8_0").path
    found = ggmill.diff(llama, small, data=True)
    page = found._repr_html_()
    assert f"differences in 1 key and {len(found.tensors)} tensors" in page
    assert f"differences in 1 key and {len(found.tensors)} tensors" in repr(found)
    assert "<code>general.file_type</code>" in page and "u32 <code>0</code>" in page
    # Shapes are in NumPy order.
    tensor = ggmill.open(llama).tensors["blk.0.ffn_up.weight"]
    rows, row_len = tensor.shape
    assert f"F32 {rows} × {row_len}</td>" in page and f"Q8_0 {rows} × {row_len}</td>" in page
    changed = {entry["name"]: entry for entry in found.tensors}[tensor.name]
    assert f"{changed['data']['rmse']:.3e}</td>" in page and "relative RMSE" in page
    without = ggmill.diff(llama, small)._repr_html_()
    assert "Q8_0" in without and "RMSE" not in without
    assert "different bytes" not in without
    many = {f"k.{number}": number for number in range(70)}
    ggmill.edit(llama, many, output=tmp_path / "many.gguf")
    page = ggmill.diff(llama, tmp_path / "many.gguf")._repr_html_()
    assert page.count("added") == 60 and "and 10 more" in page


def test_text_in_differences_is_escaped(tmp_path: Path) -> None:
    names = ("a<b>.gguf", "c<d>.gguf")
    arrays = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    strings = ["<script>", "\x1b[31m", "\udcff"]
    for name, array in zip(names, arrays):
        metadata = {
            "general.architecture": f"<script>{name}",
            "<i>\udcfe": len(name) if array.any() else "<script>\x1b[31m\udcff",
            "array": strings[: 2 + int(array.any())],
            "nested": ggmill.Typed([[1], [int(array.any())]], "[[u8]]"),
            "long": ["<script>"] * (100 + int(array.any())),
            "float": float("nan") if array.any() else 1.5,
        }
        ggmill.write(tmp_path / name, metadata, {"<u>\udcfd": array, name: array})
    found = ggmill.diff(tmp_path / names[0], tmp_path / names[1], data=True)
    page = found._repr_html_()
    for tag in ("<script", "<i>", "<u>", "<b>", "<d>", "\x1b"):
        assert tag not in page, tag
    assert "&lt;i&gt;\\udcfe" in page and "&lt;u&gt;\\udcfd" in page
    assert "nan" in page.lower() and "[[1], [1]]" in page and "[[1], [0]]" in page
    assert "string[101] <code>[&#x27;&lt;script&gt;&#x27;, " in page and "…</code>" in page
    assert ">different bytes</th>" in page and ">8</td>" in page
    assert page.count(">changed<") == 7 and "added" in page and "removed" in page
    for text in (page, repr(found)):
        text.encode()


def test_notebooks_show_plans(llama: Path, tmp_path: Path) -> None:
    plan = ggmill.quantize(llama, tmp_path / "<b>.gguf", "Q4_0", dry_run=True)
    page = plan._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page
    assert "not written" in page and plan.notes and "token_embd.weight" in page
    count = sum(tensor["type"] == "Q4_0" for tensor in plan.document["tensors"])
    nbytes = sum(t["size"] for t in plan.document["tensors"] if t["type"] == "Q4_0")
    shown = f"<td style='text-align:right'>{nbytes / 1024:.1f} KiB</td>"
    assert f">Q4_0</td><td style='text-align:right'>{count}</td>{shown}" in page
    assert repr(plan) == (
        f"<Plan {plan.path!r}: {plan.nbytes / 1024:.0f} KiB, "
        f"{len(plan.document['tensors'])} tensors, not written>"
    )
    shards = ggmill.split(llama, tmp_path / "s", max_tensors=20)
    page = shards._repr_html_()
    assert all(path in page for path in shards.paths)
    assert f"{len(shards.paths)} files" in repr(shards) and repr(shards).endswith("written>")
    data = llama.read_bytes()
    (tmp_path / "m.gguf.part1of2").write_bytes(data[:9000])
    (tmp_path / "m.gguf.part2of2").write_bytes(data[9000:])
    joined = ggmill.merge(tmp_path / "m.gguf.part1of2", tmp_path / "m.gguf")
    assert "tensor" not in repr(joined) and "<table" not in joined._repr_html_()


def test_notebooks_show_estimates(llama: Path, tmp_path: Path) -> None:
    found = ggmill.estimate(llama, context=1024, layers=99, shares=[1, 1])
    page = found._repr_html_()
    assert page.count("<tr>") == 1 + 3 + 1  # the head, the devices, the sum
    for device in found.devices:
        assert f">{device.name}</td>" in page and device.name in repr(found)
    assert "context of 1,024 tokens" in page and "context of 1,024 tokens" in repr(found)
    assert "6 of 6 layers on devices" in page
    assert not found.unknown
    partly = ggmill.estimate(llama, context=1024, layers=3, shares=[1, 1])
    assert partly.unknown and partly.unknown[0] in partly._repr_html_()
    host = ggmill.estimate(llama, context=1024)
    assert host._repr_html_().count("<tr>") == 2
    odd = tmp_path / "odd.gguf"
    ggmill.write(odd, {"general.architecture": "<script>\x1b"}, {"w": np.ones(4, np.float32)})
    found = ggmill.estimate(odd)
    assert "<script" not in found._repr_html_() and "\x1b" not in found._repr_html_()
    assert "context" not in repr(found) and found.context is None


def test_vet(llama: Path, tmp_path: Path) -> None:
    verdict = ggmill.vet(llama)
    assert verdict and verdict.safe and verdict.reasons == []
    assert verdict.document == {"schema": "ggmill.verdict/1", "safe": True, "reasons": []}
    bad = tmp_path / "bad.gguf"
    template = "{% for m in messages %}{{ m.content.__class__ }}{% endfor %}"
    ggmill.edit(llama, {"tokenizer.chat_template": template}, output=bad, check=False)
    verdict = ggmill.vet(bad)
    assert not verdict and {reason.rule for reason in verdict.reasons} >= {"GG1702"}
    reason = next(reason for reason in verdict.reasons if reason.rule == "GG1702")
    assert "CVE-2026-5760" in reason.advisories and reason.subject == "tokenizer.chat_template"
    page = tmp_path / "page.gguf"
    page.write_text("<!DOCTYPE html>")
    assert [reason.rule for reason in ggmill.vet(page).reasons] == ["GG1001"]
    with pytest.raises(ggmill.FileError):
        ggmill.vet(tmp_path / "absent.gguf")


def test_calibration_has_a_built_in_text(llama: Path, tmp_path: Path) -> None:
    output = tmp_path / "calibrated.gguf"
    # The word itself is too short a text.
    with pytest.raises(ggmill.Error, match="of memory"):
        ggmill.quantize(llama, output, "Q4_0", calibrate="auto", calibrate_memory=1000)
    with pytest.raises(ggmill.Error, match="two chunks"):
        ggmill.quantize(llama, output, "Q4_0", calibrate="automatic", calibrate_memory=1000)


def test_verify(llama: Path, real: Path, tmp_path: Path) -> None:
    quantized = tmp_path / "q.gguf"
    ggmill.quantize(llama, quantized, "Q5_1")
    for source in (llama, real / "tinystories260K"):
        found = ggmill.verify(quantized, source, threads=2)
        assert found and found.verdict == "identical" and found.tensors == []
    data = bytearray(quantized.read_bytes())
    with ggmill.open(quantized) as model:
        data[model.tensors["blk.1.attn_q.weight"].offset + 8] ^= 1  # The first code of a block.
    quantized.write_bytes(data)
    found = ggmill.verify(quantized, llama)
    assert not found and found.verdict == "consistent"
    assert [tensor["name"] for tensor in found.tensors] == ["blk.1.attn_q.weight"]
    assert found.tensors[0]["different_blocks"] == 1 and found.metadata == []
    assert found.document["schema"] == "ggmill.verify/1"
    with pytest.raises(ggmill.ArgumentError):
        ggmill.verify(quantized, real / "mobilenetv3_3class_v3_fp16.gguf")


def test_check(llama: Path, tmp_path: Path) -> None:
    report = ggmill.check(llama, data=True)
    assert report.ok, str(report)
    for profile in ("all", "spec", "ggml", "run", "threat"):
        assert ggmill.check(llama, profile=profile).document["files"], profile
    # Only rendering finds a template that drops the messages.
    loses = tmp_path / "loses.gguf"
    ggmill.edit(llama, {"tokenizer.chat_template": "{{ bos_token }}"}, output=loses, check=False)
    found = {run: {f.code for f in ggmill.check(loses, profile=run).findings} for run in ("all", "run")}
    assert any(code.startswith("GG22") for code in found["run"] - found["all"])
    data = bytearray(llama.read_bytes())
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(data[: len(data) // 2])
    report = ggmill.check(broken)
    assert not report.ok and report.errors >= 1
    finding = report.findings[0]
    assert finding.severity == "error" and finding.code.startswith("GG")
    assert finding.code in str(report) and finding.code in report._repr_html_()
    assert ggmill.check(broken, ignore=[f.code for f in report.findings]).findings == []
    (tmp_path / "text.gguf").write_text("<!DOCTYPE html>")
    assert [f.code for f in ggmill.check(tmp_path / "text.gguf").findings] == ["GG1001"]
    with pytest.raises(ggmill.ArgumentError, match="expected a code"):
        ggmill.check(llama, select=["nonsense"])
    with pytest.raises(ggmill.ArgumentError, match="profile"):
        ggmill.check(llama, profile="x")  # type: ignore[arg-type]
    shards = ggmill.split(llama, tmp_path / "s", max_tensors=20).paths
    report = ggmill.check(shards[1])
    assert len(report.document["files"]) == len(shards) and report.ok
    Path(shards[0]).unlink()
    for shard in shards[1:]:
        codes = [f.code for f in ggmill.check(shard, select=["GG1907"]).findings]
        assert codes == ["GG1907"], shard
    values = np.zeros((1, 64), np.float32)
    values[0, 3] = np.nan
    ggmill.write(tmp_path / "nan.gguf", {"general.architecture": "llama"}, {"w": values})
    codes = {f.code for f in ggmill.check(tmp_path / "nan.gguf", data=True).findings}
    assert any(code.startswith("GG21") for code in codes)


def test_edit(llama: Path, tmp_path: Path) -> None:
    path = tmp_path / "edited.gguf"
    done = ggmill.edit(
        llama,
        {
            "general.name": "Ünï",
            "llama.context_length": 4096,
            "my.typed": ggmill.Typed(3, "u8"),
            "my.array": np.arange(4, dtype=np.int16),
            "my.strings": ["a", "b"],
            "my.float": 0.25,
            "my.bool": True,
        },
        output=path,
    )
    assert done.written and "my.typed" in done.keys
    metadata = ggmill.open(path).metadata
    assert metadata["general.name"] == "Ünï"
    assert metadata.type("llama.context_length") == "u32"
    assert metadata.type("my.typed") == "u8"
    assert metadata["my.array"].tolist() == [0, 1, 2, 3]
    assert metadata["my.strings"] == ["a", "b"]
    assert (metadata["my.float"], metadata["my.bool"]) == (0.25, True)
    before = path.stat().st_ino
    planned = ggmill.edit(path, unset="my.*", dry_run=True)
    assert not planned.written and "my.bool" in ggmill.open(path).metadata
    done = ggmill.edit(path, {"general.name": "X"}, unset="my.*", rename={"general.type": "a.b"})
    assert done.method == "in_place"
    assert path.stat().st_ino == before
    metadata = ggmill.open(path).metadata
    assert "my.bool" not in metadata and "a.b" in metadata and "general.type" not in metadata
    assert ggmill.hash(path) == ggmill.hash(llama)
    data = path.read_bytes()
    for call, match in (
        (lambda: ggmill.edit(path, {"llama.context_length": "many"}), "llama.context_length"),
        (lambda: ggmill.edit(path, unset="no.such.*"), "no.such"),
        (lambda: ggmill.edit(path), "no edits"),
        (lambda: ggmill.edit(path, {"llama.block_count": 77}), "block_count is 77.*GG1506"),
        (lambda: ggmill.edit(path, {"eos_token_id": 2}), "tokenizer.ggml.eos_token_id"),
        (lambda: ggmill.edit(path, {"tokenizer.chat_template": "{% if"}), "chat_template"),
    ):
        with pytest.raises(ggmill.ArgumentError, match=match):
            call()
    assert path.read_bytes() == data


def test_extract(llama: Path, tmp_path: Path) -> None:
    model = ggmill.open(llama)
    tensor = model.tensors["output_norm.weight"]
    assert ggmill.extract(llama, tmp_path / "norm.npy", "output_norm.*") == 1
    assert np.array_equal(np.load(tmp_path / "norm.npy"), tensor.numpy())
    assert ggmill.extract(model, tmp_path / "some.gguf", "blk.0.*") > 5
    taken = ggmill.open(tmp_path / "some.gguf").tensors
    assert all(name.startswith("blk.0.") for name in taken)
    assert ggmill.extract(llama, tmp_path / "all.safetensors") == len(model.tensors)
    assert ggmill.extract(llama, tmp_path / "keys.json", keys="llama.*") == 0
    document = json.loads((tmp_path / "keys.json").read_text())
    assert document["llama.block_count:u32"] == model.metadata["llama.block_count"]
    for call, error in (
        (lambda: ggmill.extract(llama, tmp_path / "x.npy", "none.*"), ggmill.MissingError),
        (lambda: ggmill.extract(llama, tmp_path / "x.npy", "blk.*"), ggmill.ArgumentError),
        (lambda: ggmill.extract(llama, tmp_path / "x.txt"), ggmill.ArgumentError),
        (lambda: ggmill.extract(llama, tmp_path / "norm.npy", "output_norm.*"), FileExistsError),
    ):
        with pytest.raises(error):
            call()


def test_tokenizer(llama: Path, vocabulary: Path) -> None:
    tokenizer = ggmill.Tokenizer(llama)
    text = "Once upon a time, there was a ünï."
    ids = tokenizer.encode(text)
    assert ids[0] == tokenizer.special_ids["bos"]
    assert tokenizer.decode(ids[1:]).strip() == text
    assert tokenizer.count(text) == len(ids)
    pieces = tokenizer.encode_with_offsets(text, add_special=False)
    assert [id for id, _, _ in pieces] == ids[1:]
    assert b"".join(tokenizer.piece(id) or b"" for id in ids[1:]).strip() == text.encode()
    assert tokenizer.id("<unk>") == tokenizer.special_ids["unk"]
    assert tokenizer.piece(10**6) is None and tokenizer.id("no such token") is None
    with pytest.raises(ggmill.MissingError):
        tokenizer.decode([10**6])
    with pytest.raises(OverflowError):
        tokenizer.decode([-1])
    with ggmill.open(vocabulary) as model:
        of_model = model.tokenizer()
    assert len(of_model) == 32064 and of_model.kind == "spm"
    assert of_model.encode("Hello world", add_special=False) == [15043, 3186]
    with pytest.raises(ggmill.MissingError, match='key "tokenizer.ggml.model"'):
        ggmill.Tokenizer(vocabulary.with_name("mobilenetv3_3class_v3_fp16.gguf"))


def test_tokenizer_files(llama: Path, real: Path, tmp_path: Path) -> None:
    texts = ["Once upon a time, there was a ünï.", "", "  two  spaces", "<s> is text"]
    of_model = ggmill.Tokenizer(llama)
    directory = real / "tinystories260K"
    for path in (directory, directory / "tokenizer.model"):
        tokenizer = ggmill.Tokenizer(path)
        assert len(tokenizer) == len(of_model) and tokenizer.kind == of_model.kind
        assert tokenizer.special_ids["bos"] == of_model.special_ids["bos"]
        for text in texts:
            assert tokenizer.encode(text, add_special=False) == of_model.encode(
                text, add_special=False
            )
    assert of_model.remarks == []
    with pytest.raises(ggmill.Error) as none:
        ggmill.Tokenizer(tmp_path)
    assert str(tmp_path) in str(none.value)
    path = tmp_path / "tokenizer.json"
    for text in ("{}", "{"):
        path.write_text(text)
        with pytest.raises(ggmill.FormatError) as refused:
            ggmill.Tokenizer(path)
        assert "tokenizer.json" in str(refused.value)


def test_batches_of_texts(llama: Path, vocabulary: Path) -> None:
    texts = ["Once upon a time", "", "naïve 日本語 🙂", b"\xff bytes", "x" * 300_000, "a b " * 90_000]
    for path in (llama, vocabulary):
        tokenizer = ggmill.Tokenizer(path)
        for special in (True, False):
            one_by_one = [tokenizer.encode(text, add_special=special) for text in texts]
            for threads in (None, 1, 3):
                found = tokenizer.encode_batch(texts, add_special=special, threads=threads)
                assert found == one_by_one
            assert tokenizer.count_batch(iter(texts), add_special=special) == [
                len(ids) for ids in one_by_one
            ]
    assert tokenizer.encode_batch([]) == []
    with pytest.raises(ggmill.ArgumentError, match="str or bytes"):
        tokenizer.encode_batch(["fine", 3])  # type: ignore[list-item]


@pytest.mark.parametrize("text", ["Hello, naïve 日本語 🙂 text", "é", "🙂🙂", "plain", ""])
def test_offsets_in_characters(llama: Path, vocabulary: Path, text: str) -> None:
    for path in (llama, vocabulary, vocabulary.with_name("ggml-vocab-bert-bge.gguf")):
        tokenizer = ggmill.Tokenizer(path)
        data = text.encode()
        in_bytes = tokenizer.encode_with_offsets(text)
        in_characters = tokenizer.encode_with_offsets(text, characters=True)
        assert len(in_bytes) == len(in_characters)
        for (id, start, end), (same, first, last) in zip(in_bytes, in_characters):
            assert id == same
            # The number of characters before an offset, by decoding the bytes before it.
            assert first == len(data[:start].decode("utf-8", "ignore"))
            whole = len(data[:end].decode("utf-8", "ignore"))
            cut = len(data[:end]) > len(text[:whole].encode())
            assert last == whole + cut, (text, id)


class Bar:
    """A progress bar with the interface of tqdm."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.n = 0

    def update(self, n: int = 1) -> None:
        self.n += n


def test_progress(llama: Path, tmp_path: Path) -> None:
    bar = Bar()
    ggmill.hash(llama, progress=bar)
    assert bar.n == bar.total and bar.n > 0
    with pytest.raises(TypeError, match="expected a callable"):
        ggmill.hash(llama, progress=3)  # type: ignore[arg-type]
    seen: list[str] = []

    def stop(done: int, total: int, tensor: str) -> bool:
        seen.append(tensor)
        return False

    def fail(done: int, total: int, tensor: str) -> None:
        raise RuntimeError("enough")

    out = tmp_path / "never.gguf"
    for call in (
        lambda progress: ggmill.hash(llama, progress=progress),
        lambda progress: ggmill.diff(llama, llama, data=True, progress=progress),
        lambda progress: ggmill.check(llama, data=True, progress=progress),
        lambda progress: ggmill.quantize(llama, out, "Q8_0", progress=progress),
        lambda progress: ggmill.extract(llama, out, progress=progress),
        lambda progress: ggmill.merge(llama, out, progress=progress),
        lambda progress: ggmill.split(llama, tmp_path / "s", progress=progress),
    ):
        with pytest.raises(ggmill.StoppedError) as raised:
            call(stop)
        assert raised.value.kind == "cancelled"
        with pytest.raises(RuntimeError, match="enough"):
            call(fail)
    assert seen and list(tmp_path.iterdir()) == []


def test_errors_can_be_pickled(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        ggmill.open(tmp_path / "none.gguf")
    error = pickle.loads(pickle.dumps(missing.value))
    assert isinstance(error, ggmill.NoSuchFileError)
    assert (str(error), error.kind, error.path) == (
        str(missing.value),
        "io",
        str(tmp_path / "none.gguf"),
    )
    assert error.errno == missing.value.errno == 2
    with pytest.raises(ggmill.FileError):
        ggmill.open(tmp_path)

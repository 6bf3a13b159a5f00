"""Shared plans, whose ranges other processes compute."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import ggmill
import pytest


def run(plan: ggmill.SharedPlan, number: int) -> int:
    return plan.run_range(number, threads=1)


def test_shared_output_is_identical(llama: Path, tmp_path: Path) -> None:
    whole = Path(ggmill.quantize(llama, tmp_path / "whole.gguf", "Q5_0").path).read_bytes()
    plan = ggmill.quantize.plan(llama, tmp_path / "shared.gguf", "Q5_0", range_size=30_011)
    assert plan.nbytes == len(whole) and len(plan) > 5
    assert repr(ggmill.quantize) == "<function ggmill.quantize>"
    assert repr(plan) == f"<SharedPlan {plan.path!r}: {plan.nbytes} bytes in {len(plan)} ranges>"
    assert b"".join(plan.read_range(number) for number in range(len(plan))) == whole
    plan.begin()
    with get_context("spawn").Pool(2) as pool:
        done = pool.starmap(run, [(plan, number) for number in reversed(range(len(plan)))])
    # Computing a range twice is harmless.
    assert plan.run_range(2) == 2
    finished = plan.finish(done)
    assert Path(finished.path).read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared.gguf", "whole.gguf"]


def test_shared_conversion_to_a_size(real: Path, tmp_path: Path) -> None:
    source = real / "tinystories260K"
    whole = ggmill.convert(source, tmp_path / "whole.gguf", target_bpw=8.0)
    plan = ggmill.convert.plan(source, tmp_path / "shared.gguf", target_bpw=8.0)
    again = ggmill.SharedPlan.from_json(plan.to_json())
    assert again.read_range(0) == Path(whole.path).read_bytes()
    # The plan contains the chosen types, so that they are not chosen again.
    assert json.loads(plan.to_json())["arguments"]["types"]["target_bpw"] is None


def test_changed_inputs_are_rejected(llama: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(llama.read_bytes())
    plan = ggmill.quantize.plan(source, tmp_path / "out.gguf", "Q8_0")
    packed = pickle.dumps(plan)
    assert len(packed) < 2000
    assert pickle.loads(packed).read_range(0) == plan.read_range(0)
    ggmill.edit(source, {"general.name": "another"})
    with pytest.raises(ggmill.Error) as raised:
        pickle.loads(packed)
    assert raised.value.kind == "changed"


def test_invalid_arguments(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    plan = ggmill.quantize.plan(llama, out, "Q8_0", range_size=100_000)
    for call in (
        lambda: plan.span(len(plan)),
        lambda: plan.span(-1),
        lambda: plan.finish(range(len(plan) - 1)),
        lambda: ggmill.quantize.plan(llama, out, "Q8_0", range_size=0),
        lambda: ggmill.SharedPlan.from_json("[]"),
        lambda: ggmill.SharedPlan.from_json('{"operation": "x", "arguments": {}}'),
    ):
        with pytest.raises(ggmill.ArgumentError):
            call()
    with pytest.raises(ggmill.FileError):
        plan.run_range(0)
    out.write_bytes(b"precious")
    with pytest.raises(ggmill.OutputExistsError):
        plan.begin()
    out.unlink()
    plan.begin()
    out.write_bytes(b"precious")
    with pytest.raises(ggmill.OutputExistsError):
        plan.finish(range(len(plan)))
    assert out.read_bytes() == b"precious"


def test_file_system_without_links(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ggmill_io::rename_no_replace` has a fallback for file systems without hard links."""

    def refuses(*_: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr("os.link", refuses)
    plan = ggmill.quantize.plan(llama, tmp_path / "out.gguf", "Q8_0")
    plan.begin()
    plan.finish([plan.run_range(number) for number in range(len(plan))])
    assert [path.name for path in tmp_path.iterdir()] == ["out.gguf"]


DIES = """
import os, sys
import ggmill
plan = ggmill.SharedPlan.from_json(sys.stdin.read())
plan.run_range(1)
os._exit(9)
"""


def test_ranges_of_a_killed_worker_are_computed_by_others(llama: Path, tmp_path: Path) -> None:
    whole = Path(ggmill.quantize(llama, tmp_path / "whole.gguf", "Q8_0").path).read_bytes()
    plan = ggmill.quantize.plan(llama, tmp_path / "out.gguf", "Q8_0", range_size=50_000)
    plan.begin()
    command = [sys.executable, "-c", DIES]
    died = subprocess.run(command, input=plan.to_json(), text=True, check=False, timeout=60)
    assert died.returncode == 9
    # An interrupted run continues in the same file.
    plan.begin()
    plan.finish([plan.run_range(number) for number in range(len(plan))])
    assert (tmp_path / "out.gguf").read_bytes() == whole

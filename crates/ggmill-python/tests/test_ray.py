"""The examples for Ray; skipped if it is not installed."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import ggmill
import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ray = pytest.importorskip("ray", reason="ray is not installed")

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


@pytest.mark.filterwarnings("ignore")
def test_quantization_survives_a_killed_worker(tmp_path: Path) -> None:
    import ray_quantize

    rng = np.random.default_rng(6)
    source = tmp_path / "source.gguf"
    tensors = {f"w{n}": rng.standard_normal((256, 4096)).astype(np.float32) for n in range(8)}
    ggmill.write(source, {"general.architecture": "none"}, tensors)
    whole = Path(ggmill.quantize(source, tmp_path / "whole.gguf", "Q3_K").path).read_bytes()

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:

        @ray.remote(max_retries=3)
        def dies_once(plan: ggmill.SharedPlan, number: int, mark: str) -> int:
            done = plan.run_range(number, threads=1)
            if not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            return done

        made = ray_quantize.quantize(
            str(source), str(tmp_path / "a.gguf"), "Q3_K", range_size=1 << 20
        )
        assert Path(made.path).read_bytes() == whole
        plan = ggmill.quantize.plan(source, tmp_path / "b.gguf", "Q3_K", range_size=1 << 20)
        plan.begin()
        mark = str(tmp_path / "died")
        tasks = [dies_once.remote(plan, number, mark) for number in range(len(plan))]
        plan.finish(ray.get(tasks))
        assert os.path.exists(mark)
        assert (tmp_path / "b.gguf").read_bytes() == whole
    finally:
        ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_measurement_survives_a_killed_worker(llama: Path, tmp_path: Path) -> None:
    import ray_measure
    from test_measure import STORY

    small = tmp_path / "small.gguf"
    ggmill.quantize(llama, small, "Q4_0")
    text = STORY * 2
    whole = ggmill.measure(small, against=llama, text=text, context=32)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:

        @ray.remote(max_retries=3)
        def dies_once(options: dict[str, Any], mark: str) -> ggmill.Scores:
            if not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            return ggmill.measure(small, against=llama, threads=1, **options)

        imatrix, scores = ray_measure.measure(str(llama), str(small), text, context=32, size=2)
        assert scores.perplexity == whole.perplexity
        assert scores.divergence == whole.divergence
        imatrix.save(tmp_path / "imatrix.gguf")
        mark = str(tmp_path / "died")
        tasks = [dies_once.remote(part, mark) for part in ray_measure.parts(str(llama), text, 32, 2)]
        merged = ggmill.Scores.merge(ray.get(tasks))
        assert os.path.exists(mark)
        assert merged.document == whole.document
    finally:
        ray.shutdown()

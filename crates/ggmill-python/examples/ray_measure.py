"""Measure a model on the workers of a Ray cluster: its importance matrix, and a candidate against it.

    python ray_measure.py model-F16.gguf model-Q4_K_M.gguf text.txt imatrix.gguf

Each task runs some chunks of the text. The KL divergence is that of `ggmill measure` on one machine,
digit for digit. The files must exist under the same paths on all nodes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import ggmill
import ray


@ray.remote(max_retries=3)
def measure_part(model: str, options: dict[str, Any]) -> ggmill.Scores:
    """Measure some chunks. If the worker dies, Ray runs the task again on another one."""
    return ggmill.measure(model, threads=1, **options)


@ray.remote(max_retries=3)
def imatrix_part(model: str, options: dict[str, Any]) -> ggmill.Imatrix:
    """Measure the importance matrix of some chunks."""
    return ggmill.imatrix(model, threads=1, **options)


def parts(model: str, text: str, context: int, size: int) -> list[dict[str, Any]]:
    """Divide the chunks of a text into parts of `size` chunks."""
    with ggmill.open(model) as opened:
        count = len(opened.tokenizer().encode(text)) // context
    return [
        {"text": text, "context": context, "first_chunk": first, "chunks": size}
        for first in range(0, count, size)
    ]


def measure(
    model: str, candidate: str, text: str, *, context: int = 512, size: int = 4
) -> tuple[ggmill.Imatrix, ggmill.Scores]:
    """Measure on the cluster to which `ray.init` connected."""
    divided = parts(model, text, context, size)
    matrices = [imatrix_part.remote(model, {**part, "matrices": "all"}) for part in divided]
    scores = [measure_part.remote(candidate, {**part, "against": model}) for part in divided]
    return ggmill.Imatrix.merge(ray.get(matrices)), ggmill.Scores.merge(ray.get(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("candidate")
    parser.add_argument("text")
    parser.add_argument("imatrix")
    arguments = parser.parse_args()
    ray.init()
    text = Path(arguments.text).read_text(encoding="utf-8")
    imatrix, scores = measure(arguments.model, arguments.candidate, text)
    imatrix.save(arguments.imatrix)
    print(f"perplexity {scores.perplexity:.4f}, KL divergence {scores.divergence:.6f}")


if __name__ == "__main__":
    main()

"""Quantizes a model on the workers of a Ray cluster, into one file on storage that all of them see.

    python ray_quantize.py model-F16.gguf model-Q4_K_M.gguf Q4_K_M

The file is the one that `ggmill quantize` writes, byte for byte. This is worth it for hundreds of
gigabytes on many nodes: one machine quantizes as fast as its storage reads for anything smaller.
"""

from __future__ import annotations

import argparse
from typing import Any

import ggmill
import ray


@ray.remote(max_retries=3)
def run_range(plan: ggmill.SharedPlan, number: int) -> int:
    """A range of the file. One whose worker died is run again by another."""
    return plan.run_range(number, threads=1)


def quantize(source: str, output: str, type: str, **options: Any) -> ggmill.Plan:
    """Quantizes on the cluster that `ray.init` has joined."""
    plan = ggmill.quantize.plan(source, output, type, **options)
    plan.begin()
    shared = ray.put(plan)
    tasks = [run_range.remote(shared, number) for number in range(len(plan))]
    return plan.finish(ray.get(tasks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("output")
    parser.add_argument("type")
    arguments = parser.parse_args()
    ray.init()
    plan = quantize(arguments.source, arguments.output, arguments.type)
    print(f"{plan.path}: {plan.nbytes} bytes")


if __name__ == "__main__":
    main()

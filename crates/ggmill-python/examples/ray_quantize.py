"""Quantize a model on the workers of a Ray cluster, to one file on shared storage.

    python ray_quantize.py model-F16.gguf model-Q4_K_M.gguf Q4_K_M

The file is identical to that of `ggmill quantize`. This is useful for hundreds of gigabytes on many
nodes; for smaller models, one machine quantizes about as fast as it reads.
"""

from __future__ import annotations

import argparse
from typing import Any

import ggmill
import ray


@ray.remote(max_retries=3)
def run_range(plan: ggmill.SharedPlan, number: int) -> int:
    """Write a range of the file. If the worker dies, Ray runs the task again on another one."""
    return plan.run_range(number, threads=1)


def quantize(source: str, output: str, type: str, **options: Any) -> ggmill.Plan:
    """Quantize a model on the cluster to which `ray.init` connected."""
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

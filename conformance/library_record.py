"""Records logits of transformers for tiny models, which tests of the `ggmill` crate compare with converted files.

    python library_record.py OUT.json CASES.txt

A line of CASES.txt is a class, or a class with a setting and its value as JSON, separated by tabs; a case that ends in `refused NAME` is one that the conversion must refuse, naming this
setting, one that ends in `near` is computed with an approximation. OUT has for each case the configuration, the tokens, the tensors (shape, scale and offset) and the logits of the last token. Element i of the tensor NAME is

    (int(h >> 40) - 2^23) / 2^24 * scale + offset,  rounded to F32

where h is that of recipes (classes.py) for NAME. Needs transformers 5.24.0 and torch.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import library_models as models


def uniform(name: str, count: int) -> np.ndarray:
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((z ^ z >> np.uint64(31)) >> np.uint64(40)).astype("f8") / 2**24 - 0.5


def scale_of(name: str, value: torch.Tensor) -> tuple[float, float]:
    """Returns the scale and the offset of a tensor: of norms, the offset is the value that the library gives them."""
    if value.ndim < 2:
        return 0.5, round(float(value.float().mean()), 3) if torch.isfinite(value).all() else 0.0
    if "embed" in name or "shared.weight" in name or "wte" in name:
        return 1.75, 0.0
    fan = max(value.shape[-2:]) if value.ndim == 3 and value.shape[1] > 1 else value[0].numel()
    return round(float((12 / fan) ** 0.5), 4), 0.0


def record(line: str) -> dict:
    name, *change = line.split("\t")
    is_near = change[-1:] == ["near"]
    change = change[:-1] if is_near else change
    refused = change.pop().removeprefix("refused ") if change and change[-1].startswith("refused ") else None
    family = models.Family(name)
    config = family.config({change[0]: json.loads(change[1])} if change else {})
    model = family.model(config)
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        path = Path(directory)
        saved = load_file(path / "model.safetensors")
        tensors = {key: [list(value.shape), *scale_of(key, value)] for key, value in saved.items()}
        case = {"class": name, "config": json.loads((path / "config.json").read_text()), "tensors": tensors}
        if change:
            case["setting"] = change[0]
        if is_near:
            case["near"] = True
        if refused:
            return case | {"refused": refused}
        made = {}
        for key, (shape, scale, offset) in tensors.items():
            made[key] = torch.from_numpy((uniform(key, int(np.prod(shape))) * scale + offset).astype("f4").reshape(shape))
        save_file(made, path / "model.safetensors", {"format": "pt"})
        model = family.model_class.from_pretrained(directory, dtype=torch.float32, attn_implementation=config._attn_implementation).eval()
        tokens = models.tokens_of(config)
        logits = models.output(model, config, tokens)[-1]
        return case | {"tokens": tokens, "logits": [float(f"{value:.7g}") for value in logits]}


def main(out: str, lines: str) -> None:
    transformers.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    cases = [record(line) for line in Path(lines).read_text().splitlines()]
    Path(out).write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")
    print(f"{len(cases)} cases: {out}")


main(*sys.argv[1:])

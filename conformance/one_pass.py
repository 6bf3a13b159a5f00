"""Compares `ggmill convert --type Q4_K_M` with the reference converter followed by llama_model_quantize, byte for byte.

    python one_pass.py [NAME]...          compare these recipes of classes.py, or those in fixtures/mixtures.json, whose rows are multiples of 256
    python one_pass.py all                compare all recipes of models
    python one_pass.py bless NAME...      record the reference's hashes as `q4_k_m` in `expected`

The reference converts to the floating-point type that the checkpoint's weights have; of packed weights, to F32. With rows that are not multiples of 256, both sides
take the types that the mixture falls back to.

Environment: as for classes.py; the interpreter that runs this has numpy and llama-cpp-python 0.3.36.
"""

import ctypes
import hashlib
import json
import math
import sys

import classes
import llama_cpp
from libllama import alone

KIND = "q4_k_m"


def own_type(recipe):
    """The type that most weights have."""
    if "quantization_config" in recipe["config"]:
        return "f32"
    elements = {}
    for dtype, shape, *_ in recipe["tensors"].values():
        if dtype in ("F64", "F32", "F16", "BF16"):
            elements[dtype] = elements.get(dtype, 0) + math.prod(shape)
    most = max(elements, key=elements.get)
    return {"F16": "f16", "BF16": "bf16"}.get(most, "f32")


def quantize(source, output):
    """Whether llama_model_quantize did it."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M, 1
    return llama_cpp.llama_model_quantize(str(source).encode(), str(output).encode(), ctypes.byref(params)) == 0


def compare(name, bless):
    """A word on a recipe."""
    job = classes.Job(name)
    kind = own_type(job.recipe)
    source, _ = job.reference(kind)
    if source is None:
        return "no file of the reference converter", []
    theirs = job.cache / f"{KIND}.{kind}.ref.gguf"
    done, reasons = (True, []) if theirs.exists() else alone(quantize, source, theirs)
    if not done:
        theirs.unlink(missing_ok=True)
        return "refused by llama_model_quantize", reasons[-1:]
    ours, printed = job.ours(KIND, None)
    if ours is None:
        return "DIFFERENT", ["we fail: " + printed.strip().splitlines()[0]]
    expected, found = theirs.read_bytes(), ours.read_bytes()
    digest = hashlib.sha256(expected).hexdigest()
    lines = [] if expected == found else classes.differences(classes.Gguf(ours), classes.Gguf(theirs))
    ours.unlink()
    if lines:
        return "DIFFERENT", lines[:8]
    recipe = job.recipe
    recorded = recipe.get("expected", {}).get(KIND)
    if bless:
        recipe.setdefault("expected", {})[KIND] = digest
        classes.write_recipe(name, recipe)
    elif recorded not in (None, digest):
        return "DIFFERENT", ["the reference's hash is not the one recorded"]
    return "equal", []


def main():
    words = sys.argv[1:]
    bless = words[:1] == ["bless"]
    names = words[1:] if bless else words
    if not names or names == ["all"]:
        names = classes.recipe_names("mixtures", *(["classes"] if names else []))
    counts = {}
    for name in names:
        word, lines = compare(name, bless)
        counts[word] = counts.get(word, 0) + 1
        print(f"{name}: {word}", *lines, sep="\n  ", flush=True)
    print(f"{len(names)} recipes at Q4_K_M: " + "; ".join(f"{count} {word}" for word, count in counts.items()))
    sys.exit(1 if "DIFFERENT" in counts else 0)


if __name__ == "__main__":
    main()

"""Holds `ggmill lora merge` against what llama-export-lora does, step by step in libggml, and adapters against libllama's loader.

    python lora_merge.py [NAME]...

For each recipe of lora.py, or those given: its base (the class recipe `of`) is converted at F16 and its adapter at F32; the adapter is merged by ours and by the graph that
tools/export-lora/export-lora.cpp builds. Printed are the elements of changed tensors, how many differ, and by how many neighbouring F16 numbers at most. Then
libllama opens the base and the adapter.

Environment: GGMILL, our binary; CLASSES_CACHE, a directory. The interpreter has numpy, gguf and llama-cpp-python 0.3.36.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import classes  # noqa: E402
import lora  # noqa: E402

SCALE = 0.75
F32, F16 = 0, 1


def ggmill(*words):
    done = subprocess.run([os.environ["GGMILL"], *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().splitlines()[0])


class Refused(Exception):
    """Why ggmill made nothing."""


class Ggml:
    """The functions that the graph needs."""

    class Params(ctypes.Structure):
        _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]

    def __init__(self):
        import llama_cpp
        directory = Path(llama_cpp.__file__).parent / "lib"
        self.base = ctypes.CDLL(str(directory / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        self.cpu = ctypes.CDLL(str(directory / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        for name, result, arguments in [
            ("ggml_init", pointer, [self.Params]), ("ggml_free", None, [pointer]), ("ggml_get_data", pointer, [pointer]),
            ("ggml_new_tensor", pointer, [pointer, ctypes.c_int, ctypes.c_int, ctypes.POINTER(number)]),
            ("ggml_mul_mat", pointer, [pointer] * 3), ("ggml_add", pointer, [pointer] * 3), ("ggml_cont", pointer, [pointer] * 2),
            ("ggml_transpose", pointer, [pointer] * 2), ("ggml_scale", pointer, [pointer, pointer, ctypes.c_float]),
            ("ggml_cast", pointer, [pointer, pointer, ctypes.c_int]), ("ggml_new_graph", pointer, [pointer]),
            ("ggml_build_forward_expand", None, [pointer, pointer]),
        ]:
            function = getattr(self.base, name)
            function.restype, function.argtypes = result, arguments
        self.cpu.ggml_graph_compute_with_ctx.argtypes = [pointer, pointer, ctypes.c_int]

    def merged(self, name, weight, a, b, alpha):
        """What llama-export-lora makes of F16 weights; arrays have the slowest dimension first."""
        g = self.base
        ctx = g.ggml_init(self.Params(64 << 20, None, False))

        def tensor(array):
            shape = list(array.shape[::-1])
            made = g.ggml_new_tensor(ctx, F32, len(shape), (ctypes.c_int64 * len(shape))(*shape))
            array = np.ascontiguousarray(array, dtype=np.float32)
            ctypes.memmove(g.ggml_get_data(made), array.ctypes.data, array.nbytes)
            return made

        base, first, second = tensor(weight.astype(np.float32)), tensor(a), tensor(b)
        if name.startswith("token_embd"):
            delta = g.ggml_mul_mat(ctx, second, first)
        else:
            delta = g.ggml_mul_mat(ctx, g.ggml_cont(ctx, g.ggml_transpose(ctx, first)), second)
        rank = np.float32(b.shape[-1])
        delta = g.ggml_scale(ctx, delta, float(np.float32(SCALE) * np.float32(alpha) / rank))
        result = g.ggml_cast(ctx, g.ggml_add(ctx, delta, base), F16)
        graph = g.ggml_new_graph(ctx)
        g.ggml_build_forward_expand(graph, result)
        self.cpu.ggml_graph_compute_with_ctx(ctx, graph, 1)
        out = np.empty(weight.shape, dtype=np.float16)
        ctypes.memmove(out.ctypes.data, g.ggml_get_data(result), out.nbytes)
        g.ggml_free(ctx)
        return out


def tensors(path):
    """The tensors of a file as arrays, and its keys."""
    file = classes.Gguf(path)
    kinds = {"F32": "<f4", "F16": "<f2"}
    return {name: np.frombuffer(data, kinds[kind]).reshape(shape[::-1]) for name, (kind, shape, data) in file.tensors.items()}, file.keys


def ordinal(halves):
    """F16 numbers as integers in their order."""
    bits = halves.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


def opens(base, adapter):
    """Whether libllama takes the adapter for the base."""
    program = (
        "import sys, llama_cpp as l; l.llama_backend_init();"
        "m = l.llama_model_load_from_file(sys.argv[1].encode(), l.llama_model_default_params());"
        "a = m and l.llama_adapter_lora_init(m, sys.argv[2].encode());"
        "print('base refused' if not m else 'adapter opened' if a else 'adapter refused')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(base), str(adapter)], capture_output=True, text=True)
    return done.stdout.strip() or f"ended with {done.returncode}"


def main():
    library, refused, changed, unequal = Ggml(), [], 0, 0
    names = sys.argv[1:] or [name.removeprefix("lora/") for name in classes.recipe_names("lora")]
    for name in names:
        try:
            elements, different = merge(library, name)
            changed, unequal = changed + elements, unequal + different
        except Refused as error:
            refused.append(name)
            print(f"{name}: {error}")
    print(f"{len(names) - len(refused)} adapters merged, {len(refused)} refused; {unequal} of {changed} elements differ")


def merge(library, name):
    """Merges an adapter; the elements of changed tensors, and how many differ."""
    recipe = classes.read_recipe(f"lora/{name}")
    place = Path(os.environ["CLASSES_CACHE"]) / "merge" / name
    of, adapter = lora.materialize(recipe, name, place)
    classes.materialize(classes.read_recipe(recipe["of"]), of)
    files = {kind: place / f"{kind}.gguf" for kind in ("base", "adapter", "merged", "open")}
    ggmill("convert", of, "--no-vocab", "--type", "f16", "--force", "-o", files["base"])
    ggmill("convert", adapter, "--base", of, "--force", "-o", files["adapter"])
    ggmill("lora", "merge", files["base"], f"{files['adapter']}={SCALE}", "--force", "-o", files["merged"])
    (base, keys), (factors, of_adapter), (ours, _) = (tensors(files[kind]) for kind in ("base", "adapter", "merged"))
    elements = different = most = 0
    for target in sorted(key.removesuffix(".lora_a") for key in factors if key.endswith(".lora_a")):
        if base[target].dtype != np.float16:
            continue
        a, b = factors[target + ".lora_a"], factors[target + ".lora_b"]
        theirs = library.merged(target, base[target], a, b, of_adapter["adapter.lora.alpha"][1])
        distance = np.abs(ordinal(theirs) - ordinal(ours[target]))
        # Where numbers cancel, neighbours are close: the bound is absolute there.
        elements, different = elements + distance.size, different + int((distance > 0).sum())
        far = np.abs(theirs.astype(np.float64) - ours[target]) > 2.0**-20
        most = max(most, int((distance * far).max()))
    architecture = keys["general.architecture"][1]
    size = base["token_embd.weight"].shape[0]
    ggmill("edit", files["base"], "-o", files["open"], "--force", "--no-check", "--set", f"{architecture}.vocab_size:u32={size}")
    print(f"{name}: {elements} elements, {different} differ, by at most {most} in F16; {opens(files['open'], files['adapter'])}")
    return elements, different


if __name__ == "__main__":
    main()

"""Runs the parts of other projects that read GGUF files, with gguf, with ggmill.gguf in its place, and with gguf after ggmill.gguf.patch().

    python_importers.py IMPORTER FILE…

in an environment that has the project, gguf and ggmill. IMPORTER is transformers, diffusers, invokeai, comfyui, sglang or vllm. Of the last three one file alone is
run, and their other modules are stubs: COMFYUI_GGUF, SGLANG and VLLM_GGUF_PLUGIN name the directories of ComfyUI-GGUF and of the unpacked wheels. What each reads must be the same in the three ways: names, types, shapes and bytes of its tensors.
"""

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path

WAYS = ("gguf", "ggmill.gguf", "patch")


def transformers(file: str) -> dict:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place, name = os.path.split(file)
    model = AutoModelForCausalLM.from_pretrained(place, gguf_file=name)
    tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name)
    ids = tokenizer("Once upon a time", return_tensors="pt")
    with torch.no_grad():
        made = model.generate(**ids, max_new_tokens=20, do_sample=False)
    return dict(model.state_dict()) | {"text": tokenizer.decode(made[0])}


def diffusers(file: str) -> dict:
    from diffusers.models.model_loading_utils import load_gguf_checkpoint
    from diffusers.quantizers.gguf.utils import dequantize_gguf_tensor

    found = load_gguf_checkpoint(file)
    return found | {f"{name} dequantized": dequantize_gguf_tensor(one) for name, one in found.items() if hasattr(one, "quant_type")}


class Anything(type):
    """What a module of a project that is not there has: a class that gives itself for whatever is asked of it."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *args, **options):
        return cls

    def __iter__(cls):
        return iter(())


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Every module under a name, empty: for a file of a project that needs a GPU to be imported whole."""

    def __init__(self, root: str):
        self.root = root

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] == self.root else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: Anything(name, (), {})
        return module

    def exec_module(self, module):
        pass


def alone(root: str, file: Path) -> types.ModuleType:
    """One file of a project, all other modules of which are stubs."""
    sys.meta_path.insert(0, Stubs(root))
    spec = importlib.util.spec_from_file_location("file_of_project", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def weights(module: types.ModuleType, file: str, iterator) -> dict:
    import gguf

    names = {one.name: f"hf.{one.name}" for one in gguf.GGUFReader(file).tensors}
    return dict(iterator(file, names)) | {"extra": repr(module.get_gguf_extra_tensor_names(file, names | {"no.such": "x"}))}


def sglang(file: str) -> dict:
    module = alone("sglang", Path(os.environ["SGLANG"]) / "sglang/srt/model_loader/weight_utils.py")
    return weights(module, file, module.gguf_quant_weights_iterator)


def vllm(file: str) -> dict:
    module = alone("vllm", Path(os.environ["VLLM_GGUF_PLUGIN"]) / "vllm_gguf_plugin/weight_utils.py")
    found = weights(module, file, module.gguf_quant_weights_iterator)
    names = {name: name for name in found}
    return found | {
        "types": repr(sorted(module.get_gguf_weight_type_map(file, names).items())),
        "plain": repr(sorted(module.get_gguf_unquantized_params([file]))),
    }


def invokeai(file: str) -> dict:
    import torch

    module = importlib.import_module("invokeai.backend.quantization.gguf.loaders")
    found = module.gguf_sd_loader(Path(file), compute_dtype=torch.float32)
    result = {}
    for name, one in found.items():
        result[name] = one.quantized_data
        result[f"{name} dequantized"] = one.get_dequantized_tensor()
    return result


def comfyui(file: str) -> dict:
    # ComfyUI itself is not needed to read a file: its modules are only bases of classes here.
    for name in ("comfy", "comfy.ops", "comfy.lora", "comfy.model_management", "comfy.float"):
        sys.modules[name] = types.ModuleType(name)
    comfy = sys.modules["comfy"]
    for name in ("ops", "lora", "model_management", "float"):
        setattr(comfy, name, sys.modules[f"comfy.{name}"])

    class Any(type):
        def __getattr__(cls, name):
            return cls

    class Base(metaclass=Any):
        pass

    comfy.ops.manual_cast = Base
    comfy.ops.disable_weight_init = Base
    place = Path(os.environ["COMFYUI_GGUF"])
    package = types.ModuleType("comfyui_gguf")
    package.__path__ = [str(place)]
    sys.modules["comfyui_gguf"] = package
    loader = importlib.import_module("comfyui_gguf.loader")
    dequant = importlib.import_module("comfyui_gguf.dequant")
    found = loader.gguf_sd_loader(file, is_text_model=True, handle_prefix=None)
    if isinstance(found, tuple):  # newer ones return the metadata too
        found = found[0]
    result = {}
    for name, one in found.items():
        result[name] = one
        result[f"{name} dequantized"] = dequant.dequantize_tensor(one)
    return result


def shown(value) -> tuple:
    import torch

    if not isinstance(value, torch.Tensor):
        return (repr(value),)
    value = torch.Tensor.as_subclass(value.detach(), torch.Tensor).contiguous()
    data = value.view(torch.uint8) if value.ndim else value.reshape(1).view(torch.uint8)
    return (str(value.dtype), tuple(value.shape), hashlib.sha256(data.numpy().tobytes()).hexdigest())


def read(importer: str, way: str, files: list[str]) -> None:
    if way == "ggmill.gguf":
        import python_shim

        python_shim.install()
    elif way == "patch":
        import ggmill.gguf

        ggmill.gguf.patch()
    import gguf

    assert (gguf.__name__ == "ggmill.gguf") == (way == "ggmill.gguf")
    for file in files:
        found = globals()[importer](os.path.abspath(file))
        for name in sorted(found):
            print("result", file, name, *shown(found[name]))


def main() -> int:
    importer, *files = sys.argv[1:]
    results = {}
    for way in WAYS:
        done = subprocess.run([sys.executable, __file__, "--read", importer, way, *files], capture_output=True, text=True)
        results[way] = [line for line in done.stdout.splitlines() if line.startswith("result ")]
        print(f"{importer}, {way}: {len(results[way])} values, exit {done.returncode}", flush=True)
        if done.returncode:
            print(done.stderr[-1500:])
    equal = all(results[way] == results["gguf"] and results[way] for way in WAYS)
    print(f"{importer}: {'the same in the three ways' if equal else 'not the same'}")
    return 0 if equal else 1


if __name__ == "__main__":
    if sys.argv[1] == "--read":
        read(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(main())

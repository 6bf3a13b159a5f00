"""Runs the reference's convert_hf_to_gguf.py with its own gguf and with ggmill.gguf in its place, and compares the bytes.

    python_convert.py LLAMA_CPP [RECIPE…]

Recipes are those of classes.py; ten of different families if none is named. Needs ggmill (installed or in PYTHONPATH), torch and transformers 4.57.6.
Each conversion is at the types that the recipe has hashes for, which both files must have.
"""

import hashlib
import json
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

import classes
import python_shim

FAMILIES = [
    "Qwen2ForCausalLM", "Gemma3ForCausalLM", "MixtralForCausalLM", "BertModel-wordpiece", "MambaForCausalLM", "DeepseekV3ForCausalLM-bpe", "GPT2LMHeadModel",
    "Rwkv6ForCausalLM", "T5ForConditionalGeneration", "DreamModel-spm", "BloomForCausalLM", "mmproj/AudioFlamingo3ForConditionalGeneration",
]


def serve(jobs: list, shim: bool, root: str) -> None:
    """Converts in children of this process, which has loaded everything once."""
    if shim:
        python_shim.install()
    else:
        sys.path.insert(0, f"{root}/gguf-py")
    sys.path.insert(0, root)
    import gguf
    assert (gguf.__name__ == "ggmill.gguf") == shim, gguf.__name__
    import conversion
    import torch
    torch.set_num_threads(1)
    conversion.load_all_models()
    for vocabulary, eager, projector, directory, kind, out in jobs:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                log = os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT)
                os.dup2(log, 1)
                os.dup2(log, 2)
                convert(conversion, vocabulary, eager, projector, directory, kind, out, root)
                code = 0
            except SystemExit as error:
                code = int(bool(error.code))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.waitpid(child, 0)


def convert(conversion, vocabulary, eager, projector, directory, kind, out, root) -> None:
    if vocabulary == "none":
        waiting = [conversion.TextModel]
        while waiting:
            model = waiting.pop()
            waiting += model.__subclasses__()
            if "set_vocab" in vars(model):
                model.set_vocab = conversion.TextModel._set_vocab_none
    elif vocabulary != "builtin":
        conversion.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    sys.argv = ["convert_hf_to_gguf.py", str(directory), "--outfile", out, "--outtype", kind]
    sys.argv += ["--no-lazy"] if eager else []
    sys.argv += ["--mmproj"] if projector else []
    runpy.run_path(f"{root}/convert_hf_to_gguf.py", run_name="__main__")


def digest(path: str) -> str | None:
    found = [path] if os.path.exists(path) else [str(one) for one in Path(path).parent.glob(f"*{Path(path).name}")]
    return hashlib.sha256(Path(found[0]).read_bytes()).hexdigest() if found else None


def main() -> int:
    root, *names = sys.argv[1:]
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        jobs: list = []
        recipes = []
        for name in names or FAMILIES:
            recipe = classes.read_recipe(name)
            place = Path(directory) / name.replace("/", "-")
            classes.materialize(recipe, place)
            for kind in recipe["expected"]:
                recipes.append((name, kind, recipe["expected"][kind]))
                jobs.append([recipe.get("vocabulary", "none"), recipe.get("eager", False), name.startswith("mmproj/"), place, kind])
        for shim in (False, True):
            child = os.fork()
            if child == 0:
                try:
                    serve([[*job, f"{directory}/{number}.{shim}.gguf"] for number, job in enumerate(jobs)], shim, root)
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            os.waitpid(child, 0)
        for number, (name, kind, expected) in enumerate(recipes):
            theirs, ours = (digest(f"{directory}/{number}.{shim}.gguf") for shim in (False, True))
            equal = ours == theirs and ours is not None
            note = "" if theirs == expected else " (the recorded hash is another)"
            print(f"{name} {kind}: {'equal' if equal else 'differs'}{note}", flush=True)
            if not equal:
                wrong += 1
                print(Path(f"{directory}/{number}.True.gguf.log").read_text()[-1500:])
    print(f"{len(recipes) - wrong} of {len(recipes)} equal")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

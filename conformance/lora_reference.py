"""The side of lora.py that runs inside the reference's interpreter.

    python lora_reference.py convert LLAMA_CPP

runs convert_lora_to_gguf.py for each job on standard input: a line of JSON with `base`, `adapter`, `out`, `type` and `log`. Each runs in a process of its own,
forked from this one. The file is `out` if all went well; the log is written last.

    python lora_reference.py build OF.json ADAPTER.json

prints a recipe as JSON: the adapter that peft makes of LoraConfig(**ADAPTER) for the model that transformers makes of the configuration in the recipe OF.
"""

import json
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path


def convert(root):
    sys.path[:0] = [root, root + "/gguf-py"]
    import torch
    torch.set_num_threads(1)
    import conversion
    import transformers
    from transformers import AutoConfig, AutoTokenizer  # noqa: F401
    from safetensors.torch import load_file  # noqa: F401
    conversion.load_all_models()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            log = open(job["log"] + ".part", "wb", buffering=0)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            code = 0
            sys.argv = ["convert_lora_to_gguf.py", "--base", job["base"], "--outfile", job["out"], "--outtype", job["type"], job["adapter"]]
            try:
                runpy.run_path(f"{root}/convert_lora_to_gguf.py", run_name="__main__")
            except SystemExit as end:
                code = 1 if end.code else 0
            except BaseException:
                traceback.print_exc()
                code = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        if status != 0:
            Path(job["out"]).unlink(missing_ok=True)
        os.replace(job["log"] + ".part", job["log"])


def build(of, adapter):
    import torch
    import transformers
    import peft
    from classes import read_recipe
    from classes_reference import find_class
    given = read_recipe(of)["config"]
    name = given["architectures"][0]
    config = transformers.AutoConfig.for_model(given["model_type"], **{key: value for key, value in given.items() if key not in ("model_type", "rope_scaling")})
    model = find_class(transformers, name)(config).to(torch.float32)
    wrapped = peft.get_peft_model(model, peft.LoraConfig(**json.loads(Path(adapter).read_text())))
    with tempfile.TemporaryDirectory() as directory:
        wrapped.save_pretrained(directory)
        adapter_config = json.loads((Path(directory) / "adapter_config.json").read_text())
        card = (Path(directory) / "README.md").read_text()
        with open(Path(directory) / "adapter_model.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    # What is absent says nothing, and modules are in the order of a Python set.
    adapter_config = {key: sorted(value) if isinstance(value, list) else value for key, value in adapter_config.items() if value not in (None, {}, [])}
    front = card.split("---\n")[1]
    tensors = {key: [header[key]["dtype"], header[key]["shape"]] for key in sorted(header)}
    return {"of": of, "adapter": adapter_config, "files": {"README.md": f"---\n{front}---\n\n# An adapter\n"}, "tensors": tensors}


if __name__ == "__main__":
    if sys.argv[1] == "convert":
        convert(sys.argv[2])
    else:
        printed = os.dup(1)
        os.dup2(2, 1)
        recipe = build(sys.argv[2], sys.argv[3])
        os.write(printed, json.dumps(recipe).encode())

# Runs a checkpoint with transformers, on the CPU and in F32. Standard input is a JSON object: `path`, `text`, and
# `tokens` or null. Standard output is a JSON object in one line, and then the logits, as 32-bit floats.
import sys

# Modules of the current directory are not imported.
sys.path = [path for path in sys.path if path]

import json
import os

request = json.load(sys.stdin)
# Libraries write to standard output.
result = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)


def answer(**members):
    result.write(json.dumps(members).encode() + b"\n")


def run():
    try:
        import torch
        import transformers
    except ImportError as error:
        return answer(absent=str(error))
    transformers.logging.set_verbosity_error()
    local = {"local_files_only": True, "trust_remote_code": False}
    path = request["path"]
    ids = None
    if request["text"] is not None:
        try:
            ids = transformers.AutoTokenizer.from_pretrained(path, **local)(request["text"]).input_ids
        except Exception as error:
            print(f"no tokenizer: {error}", file=sys.stderr)
    tokens = ids if request["tokens"] is None else request["tokens"]
    config = transformers.AutoConfig.from_pretrained(path, **local)
    names = getattr(config, "architectures", None) or []
    of_name = getattr(transformers, names[0], None) if names else None
    model, loading = (of_name or transformers.AutoModelForCausalLM).from_pretrained(
        path, torch_dtype=torch.float32, output_loading_info=True, **local
    )
    missing = sorted(loading["missing_keys"])
    if missing:
        return answer(incomparable=f"the checkpoint has no tensor {missing[0]!r} for {type(model).__name__}")
    with torch.no_grad():
        output = model.eval()(input_ids=torch.tensor([tokens]))
    logits = getattr(output, "logits", None)
    if logits is None or logits.dim() != 3 or logits.shape[1] != len(tokens):
        return answer(incomparable=f"{type(model).__name__} outputs no logits for each token")
    answer(version=transformers.__version__, tokens=ids, width=logits.shape[2])
    result.write(logits[0].float().numpy().astype("<f4").tobytes())


run()
result.flush()

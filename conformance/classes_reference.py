"""The side of classes.py that runs inside the reference's interpreters.

    python classes_reference.py serve CACHE LLAMA_CPP

waits at CACHE/reference.socket for conversions: a line of JSON with `directory`, `out`, `type`, `vocabulary`, `eager`, `exact`, `mmproj`, `target` and `log`. Each runs in a process of its own,
forked from this one, so that what one changes the next does not see. The file is `out` if all went well; the log is written last.

    python classes_reference.py build CONFIG.json

prints a recipe as JSON: the model that transformers makes for a configuration (its class is the first of `architectures`), as it saves it.

    python classes_reference.py vocabularies DIR

makes the tokenizers `bpe` and `wordpiece` under DIR (committed as crates/ggmill-convert/tests/fixtures/vocabularies).
"""

import fcntl
import importlib
import json
import logging
import os
import pkgutil
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path

IDLE_SECONDS = 3600
JOB_SECONDS = 180


def convert(job, conversion, gguf, torch):
    """What convert_hf_to_gguf.py does, with the vocabulary as the job has it."""
    def subclasses(of):
        return {of}.union(*(subclasses(sub) for sub in of.__subclasses__()))

    if job["vocabulary"] == "none":
        for model in subclasses(conversion.TextModel):
            if "set_vocab" in vars(model):
                model.set_vocab = conversion.TextModel._set_vocab_none
    else:
        conversion.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    if job.get("exact"):
        for name in ("exp", "sin", "cos"):
            function = getattr(torch, name)
            setattr(torch, name, lambda tensor, function=function: function(tensor.double()).float())
    kinds = {"f32": "ALL_F32", "f16": "MOSTLY_F16", "bf16": "MOSTLY_BF16", "q8_0": "MOSTLY_Q8_0", "auto": "GUESSED"}
    directory, partial = Path(job["directory"]), Path(job["out"] + ".part")
    with torch.inference_mode():
        # As with --mistral-format, which is given for checkpoints that have only that layout.
        is_mistral = (directory / "params.json").exists() and not list(directory.glob("model*.safetensors"))
        hparams = conversion.ModelBase.load_hparams(directory, is_mistral)
        kind = conversion.ModelType.MMPROJ if job["mmproj"] else conversion.ModelType.TEXT
        if is_mistral:
            from conversion.mistral import MistralModel, MistralMoeModel
            from conversion.pixtral import PixtralModel
            model_class = PixtralModel if job["mmproj"] else MistralModel if hparams.get("moe") is None else MistralMoeModel
        else:
            model_class = conversion.get_model_class(conversion.get_model_architecture(hparams, kind), mmproj=job["mmproj"])
        target = job.get("target")
        model = model_class(directory, gguf.LlamaFileType[kinds[job["type"]]], partial, eager=job.get("eager", False),
                            target_model_dir=Path(target) if target else None)
        model.write()
    made = Path(model.fname_out)
    os.replace(made, job["out"])


def work(job, *modules):
    """One conversion, with its log."""
    log = open(job["log"] + ".part", "wb", buffering=0)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    signal.alarm(JOB_SECONDS)
    code = 0
    try:
        logging.basicConfig(level=logging.INFO, force=True)
        convert(job, *modules)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve(cache, root):
    """Waits for jobs, one after the other."""
    lock = open(f"{cache}/reference.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    sys.path[:0] = [root, root + "/gguf-py"]
    import torch
    torch.set_num_threads(1)
    import conversion
    import gguf
    import transformers  # noqa: F401
    import transformers.models.auto.tokenization_auto  # noqa: F401
    conversion.load_all_models()
    importlib.import_module("conversion.mistral")

    address = f"{cache}/reference.socket"
    Path(address).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(32)
    listener.settimeout(IDLE_SECONDS)
    while True:
        try:
            peer, _ = listener.accept()
        except TimeoutError:
            Path(address).unlink(missing_ok=True)
            return
        try:
            peer.settimeout(10)
            job = json.loads(peer.makefile().readline())
            child = os.fork()
            if child == 0:
                work(job, conversion, gguf, torch)
            _, status = os.waitpid(child, 0)
            if status != 0:
                Path(job["out"]).unlink(missing_ok=True)
                if os.WIFSIGNALED(status):
                    with open(job["log"] + ".part", "a") as log:
                        log.write(f"\nended by signal {os.WTERMSIG(status)}\n")
            os.replace(job["log"] + ".part", job["log"])
            peer.sendall(json.dumps({"ok": status == 0}).encode() + b"\n")
        except (OSError, ValueError, KeyError):
            traceback.print_exc()
        finally:
            peer.close()


def find_class(transformers, name):
    """A model class, also one that the package does not export."""
    try:
        return getattr(transformers, name)
    except AttributeError:
        pass
    for package in pkgutil.iter_modules(transformers.models.__path__):
        directory = Path(transformers.models.__path__[0]) / package.name
        for file in directory.glob("modeling_*.py"):
            if f"class {name}(" in file.read_text():
                return getattr(importlib.import_module(f"transformers.models.{package.name}.{file.stem}"), name)
    sys.exit(f"transformers {transformers.__version__} has no class {name}")


def build(path):
    """The recipe of a configuration."""
    import torch
    torch.set_num_threads(1)
    import transformers
    given = json.loads(Path(path).read_text())
    name = given["architectures"][0]
    rest = {key: value for key, value in given.items() if key != "model_type"}
    config = transformers.AutoConfig.for_model(given["model_type"], **rest)
    config.architectures = [name]
    model = find_class(transformers, name)(config).to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory, safe_serialization=True)
        saved = json.loads((Path(directory) / "config.json").read_text())
        saved["architectures"] = [name]
        with open(Path(directory) / "model.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    # Python writes infinity as a word that JSON does not have; recipes are JSON. Such numbers are limits that no converter looks at.
    for key in [key for key, value in saved.items() if "Infinity" in json.dumps(value)]:
        del saved[key]
        print(f"left out of the configuration: {key}", file=sys.stderr)
    tensors = {key: [header[key]["dtype"], header[key]["shape"]] for key in sorted(header)}
    return {"class": name, "config": saved, "vocabulary": "none", "tensors": tensors}


def vocabularies(directory):
    """Tiny tokenizers: bytes with a few merges, and word pieces."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers.models.gpt2.tokenization_gpt2 import bytes_to_unicode

    def save(name, tokenizer, **config):
        (directory / name).mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(directory / name / "tokenizer.json"), pretty=False)
        (directory / name / "tokenizer_config.json").write_text(json.dumps(config, indent=1))

    def special(names):
        return [AddedToken(name, special=True, normalized=False) for name in names]

    merges = ["t h", "th e", "\u0120 the", "i n", "a n", "an d", "\u0120 and", "e r", "o n", "r e", "in g", "\u0120 a", "l l", "o u", "1 2", "12 3"]
    merges = [tuple(merge.split(" ")) for merge in merges]
    table = bytes_to_unicode()
    vocabulary = {table[byte]: byte for byte in range(256)}
    for merge in merges:
        vocabulary["".join(merge)] = len(vocabulary)
    bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(special(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>", "<pad>"]))
    bpe.add_tokens([AddedToken("<extra>", normalized=False)])
    save("bpe", bpe, tokenizer_class="PreTrainedTokenizerFast", bos_token="<|endoftext|>", eos_token="<|im_end|>", unk_token="<unk>", pad_token="<pad>",
         add_bos_token=False, clean_up_tokenization_spaces=False, model_max_length=512)

    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = specials + list(letters + ".,!?'-") + ["##" + letter for letter in letters] + ["the", "and", "##ing", "##er", "in", "##ll"]
    pieces = Tokenizer(models.WordPiece(vocab={word: id for id, word in enumerate(words)}, unk_token="[UNK]", continuing_subword_prefix="##"))
    pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    pieces.decoder = decoders.WordPiece()
    pieces.add_special_tokens(special(specials))
    save("wordpiece", pieces, tokenizer_class="BertTokenizer", do_lower_case=True, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]",
         mask_token="[MASK]", model_max_length=512)
    (directory / "wordpiece" / "vocab.txt").write_text("\n".join(words) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3])
    elif sys.argv[1] == "vocabularies":
        vocabularies(Path(sys.argv[2]))
    else:
        printed = os.dup(1)
        os.dup2(2, 1)
        recipe = build(sys.argv[2])
        os.write(printed, json.dumps(recipe).encode())

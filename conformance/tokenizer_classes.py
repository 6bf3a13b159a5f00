"""Writes what the tokenizer classes of transformers (4.57.6) take for granted, and which class a type of model has.

    python tokenizer_classes.py FILE.json

FILE is crates/ggmill-convert/data/tokenizer-classes.json: for each fast class that a tokenizer_config.json can name, the defaults of its constructor, and for
each `model_type` of a config.json the class of its tokenizer. Checkpoints leave these values out, and the reference converter takes them from there.

`of_pairs` has the classes that make a byte-level tokenizer of `vocab.json` and `merges.txt` where a checkpoint has no tokenizer.json: which of the library's
converters does so, and with which flags the class makes the special tokens that a configuration names by their text.
"""

import inspect
import json
import sys
import tempfile
from pathlib import Path

import transformers
from transformers.convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

TOKENS = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "additional_special_tokens"]
FLAGS = ["add_bos_token", "add_eos_token", "do_lower_case", "strip_accents", "tokenize_chinese_chars"]


def defaults(tokenizer):
    """The defaults of the constructor; those that are None say nothing."""
    owner = next(base for base in tokenizer.__mro__ if "__init__" in base.__dict__)
    parameters = inspect.signature(owner.__init__).parameters
    return {name: parameters[name].default for name in TOKENS + FLAGS if name in parameters and parameters[name].default is not None}


CONVERTERS = ["GPT2Converter", "RobertaConverter", "Qwen2Converter"]
DEFAULTS = dict(single_word=False, lstrip=False, rstrip=False, normalized=False)


def of_pairs(name):
    """How a class makes a tokenizer of `vocab.json` and `merges.txt`; None where it does not, or not of texts."""
    slow = getattr(transformers, name.removesuffix("Fast"), None)
    converter = SLOW_TO_FAST_CONVERTERS.get(name.removesuffix("Fast"))
    if slow is None or converter is None or converter.__name__ not in CONVERTERS or "bbox" in slow.model_input_names:
        return None
    with tempfile.TemporaryDirectory() as place:
        vocab, merges = Path(place) / "vocab.json", Path(place) / "merges.txt"
        vocab.write_text("{}")
        merges.write_text("#version: 0.2\n")
        made = slow(str(vocab), str(merges), **{kind: f"<{kind}>" for kind in TOKENS[:-1]}).init_kwargs
    flags = {}
    for kind in TOKENS[:-1]:
        if not isinstance(made[kind], str):
            flags[kind] = {flag: True for flag, value in DEFAULTS.items() if getattr(made[kind], flag) != value}
    return dict(converter=converter.__name__, flags=flags)


fast = {fast for _, fast in TOKENIZER_MAPPING_NAMES.values() if fast} | {name for name in dir(transformers) if name.endswith("TokenizerFast")}
classes = {name: defaults(getattr(transformers, name)) for name in sorted(fast)}
types = {name: classes_of[1] for name, classes_of in TOKENIZER_MAPPING_NAMES.items() if classes_of[1]}
pairs = {name: made for name in sorted(fast) if (made := of_pairs(name))}


def lines(entries):
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(entries.items())) + "\n }"


with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write("{\n \"source\": \"transformers 4.57.6\",\n" + f' "classes": {lines(classes)},\n "model_types": {lines(types)},\n "of_pairs": {lines(pairs)}\n}}\n')

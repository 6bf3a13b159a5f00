"""Writes what the tokenizer classes of transformers (4.57.6) take for granted, and which class a type of model has.

    python tokenizer_classes.py FILE.json

FILE is crates/ggmill-convert/data/tokenizer-classes.json: for each fast class that a tokenizer_config.json can name, the defaults of its constructor, and for
each `model_type` of a config.json the class of its tokenizer. Checkpoints leave these values out, and the reference converter takes them from there.
"""

import inspect
import json
import sys

import transformers
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

TOKENS = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "additional_special_tokens"]
FLAGS = ["add_bos_token", "add_eos_token", "do_lower_case", "strip_accents", "tokenize_chinese_chars"]


def defaults(tokenizer):
    """The defaults of the constructor; those that are None say nothing."""
    owner = next(base for base in tokenizer.__mro__ if "__init__" in base.__dict__)
    parameters = inspect.signature(owner.__init__).parameters
    return {name: parameters[name].default for name in TOKENS + FLAGS if name in parameters and parameters[name].default is not None}


fast = {fast for _, fast in TOKENIZER_MAPPING_NAMES.values() if fast} | {name for name in dir(transformers) if name.endswith("TokenizerFast")}
classes = {name: defaults(getattr(transformers, name)) for name in sorted(fast)}
types = {name: classes_of[1] for name, classes_of in TOKENIZER_MAPPING_NAMES.items() if classes_of[1]}


def lines(entries):
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(entries.items())) + "\n }"


with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write("{\n \"source\": \"transformers 4.57.6\",\n" + f' "classes": {lines(classes)},\n "model_types": {lines(types)}\n}}\n')

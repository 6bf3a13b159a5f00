"""Writes the vocabularies for checkpoints that have no tokenizer, which the reference converter bundles.

    python builtin_vocabularies.py LLAMA_CPP DATA

LLAMA_CPP is a llama.cpp source tree (that of llama-cpp-python 0.3.36), DATA crates/ggmill-convert/data. `vocabularies/NAME.txt` has a token in each line, those
behind are in `vocabularies.json`: padding tokens are made from their IDs, merges from the order of the tokens, and scores from their place, which is checked.
"""

import itertools
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "gguf-py"))

import gguf  # noqa: E402

OUT = Path(sys.argv[2])
PRE = {"gpt-neox": "mpt", "llama-spm": "default"}
IDS = [("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")]
facts = {}
for name, pre in PRE.items():
    reader = gguf.GGUFReader(Path(sys.argv[1]) / f"models/ggml-vocab-{name}.gguf")

    def value(key):
        field = reader.get_field(f"tokenizer.ggml.{key}")
        return field.contents() if field else None

    tokens, types, scores = value("tokens"), value("token_type"), value("scores")
    size = len(tokens)
    while tokens[-1] == f"[PAD{len(tokens) - 1}]":
        tokens.pop()
    spaces = list(itertools.takewhile(str.isspace, reversed(tokens)))[::-1]
    lines = tokens[: len(tokens) - len(spaces)]
    assert not any("\n" in token for token in lines)
    (OUT / "vocabularies").mkdir(exist_ok=True)
    (OUT / f"vocabularies/{name}.txt").write_bytes("".join(token + "\n" for token in lines).encode())
    runs = [[int(type), len(list(run))] for type, run in itertools.groupby(types)]
    facts[name] = dict(model=value("model"), pre=value("pre") or pre, size=size, spaces=[len(each) for each in spaces], types=runs, merges=value("merges") is not None)
    facts[name] |= {f"{role}_token_id": value(f"{key}_token_id") for role, key in IDS if value(f"{key}_token_id") is not None}
    facts[name] |= {key: value(key) for key in ("add_bos_token", "add_eos_token") if value(key) is not None}
    if name == "llama-spm":
        first = sum(length for _, length in runs[:-1])
        facts[name]["first_scored"] = first
        assert scores == [0.0] * first + [-1e9 if set(token) == {"\u2581"} else float(first - id) for id, token in enumerate(tokens[first:], first)]

(OUT / "vocabularies.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")

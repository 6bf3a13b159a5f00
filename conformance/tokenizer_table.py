"""Counts the texts whose tokens differ between the library and a converted file, for each recorded tokenizer.

    python tokenizer_table.py GGMILL [FILE.tsv]

GGMILL is the command. It converts the vocabulary of each tokenizer in crates/ggmill-testdata/tokenizers (recorded by tokenizer_kinds.py from `tokenizers` 0.23.3)
and tokenizes the 500 texts with the written file, special tokens included. FILE.tsv gets the name, the number of texts that differ, and what the command said.
"""

import json
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from tokenizer_texts import FILE, ROOT, with_added

TEXTS = FILE.read_text(encoding="utf-8").splitlines()
CASES = ROOT / "crates/ggmill-testdata/tokenizers"


def files_of(case):
    if "base" not in case:
        return case["files"]
    files = json.loads((CASES / f"{case['base']}.json").read_text(encoding="utf-8"))["files"]
    return {name: content | case["files"].get(name, {}) for name, content in files.items()}


def differing(ggmill, case):
    with tempfile.TemporaryDirectory() as place:
        source, target = Path(place) / "source", Path(place) / "out.gguf"
        source.mkdir()
        for name, content in files_of(case).items():
            (source / name).write_text(json.dumps(content), encoding="utf-8")
        done = subprocess.run([ggmill, "convert", source, "-o", target, "--vocab-only"], capture_output=True, text=True)
        said = " ".join(line for line in done.stderr.splitlines() if "tokenizer.json" in line).replace(str(source), "").replace("\t", " ")
        if not target.exists():
            return "refused", said
        texts = "".join(json.dumps(with_added(line, case["added"])) + "\n" for line in TEXTS)
        tokens = subprocess.run([ggmill, "tokenize", target, "--jsonl"], input=texts, capture_output=True, text=True, check=True).stdout.splitlines()
        crc = lambda ids: f"{zlib.crc32(','.join(map(str, json.loads(ids))).encode()):08x}"
        return sum(crc(ids) != expected for ids, expected in zip(tokens, case["ids"], strict=True)), said


rows = []
for path in sorted(CASES.glob("*.json")):
    count, said = differing(sys.argv[1], json.loads(path.read_text(encoding="utf-8")))
    rows.append(f"{path.stem}\t{count}\t{said}")
    print(rows[-1][:200], flush=True)
if len(sys.argv) > 2:
    Path(sys.argv[2]).write_text("tokenizer\ttexts that differ, of 500\tnotes\n" + "\n".join(rows) + "\n", encoding="utf-8")

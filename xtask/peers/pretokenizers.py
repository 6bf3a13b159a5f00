"""Writes the hashes by which the reference converter knows pre-tokenizers.

    python pretokenizers.py LLAMA_CPP FILE

LLAMA_CPP is a llama.cpp source tree (that of llama-cpp-python 0.3.36), FILE crates/ggmill-convert/data/pretokenizers.txt: a line for each of them with the
SHA-256 of the IDs that its tokenizer gives the check text, its name, and the checkpoint it was first seen in; the check text is the second line, as JSON.
"""

import ast
import json
import re
import sys
from pathlib import Path

source = (Path(sys.argv[1]) / "conversion/base.py").read_text(encoding="utf-8")
text = ast.literal_eval(re.search(r"^ +chktxt = ('.*')$", source, re.M).group(1))
found = re.findall(r'chkhsh == "([0-9a-f]{64})":\n +# ref: https://huggingface.co/(\S+)\n +res = "([^"]+)"', source)
assert len(found) == source.count("if chkhsh =="), "one has another form"
lines = [f"{digest} {name} {where}" for digest, where, name in found]
head = "# Pre-tokenizers of llama.cpp's conversion/base.py (llama-cpp-python 0.3.36), written by xtask/peers/pretokenizers.py"
Path(sys.argv[2]).write_text("\n".join([head, json.dumps(text, ensure_ascii=False), *lines]) + "\n", encoding="utf-8")

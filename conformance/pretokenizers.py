"""Writes the hashes by which the reference converter knows pre-tokenizers.

    python pretokenizers.py LLAMA_CPP DIRECTORY

LLAMA_CPP is a llama.cpp source tree (that of llama-cpp-python 0.3.36), DIRECTORY crates/ggmill-convert/data. There pretokenizers.txt has a line for each of
them with the SHA-256 of the IDs that its tokenizer gives the check text, its name, and the checkpoint it was first seen in; the check text is the second line,
as JSON. pretokenizer-patterns.json has, for each set of regular expressions that llama.cpp splits texts by, the names that mean it.
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
head = "# Pre-tokenizers of llama.cpp's conversion/base.py (llama-cpp-python 0.3.36), written by conformance/pretokenizers.py"
out = Path(sys.argv[2])
(out / "pretokenizers.txt").write_text("\n".join([head, json.dumps(text, ensure_ascii=False), *lines]) + "\n", encoding="utf-8")

loader = (Path(sys.argv[1]) / "src/llama-vocab.cpp").read_text(encoding="utf-8")
loader = re.sub(r"^ +//.*$", "", loader, flags=re.M)
patterns = {}
for cases, body in re.findall(r"((?:case LLAMA_VOCAB_PRE_TYPE_\w+:\s+)+)regex_exprs = \{(.*?)\};", loader, re.S):
    strings = [ast.literal_eval(string) for string in re.findall(r'^\s*("(?:[^"\\]|\\.)*"),?$', body, re.M)]
    patterns |= dict.fromkeys(re.findall(r"case (\w+)", cases), tuple(strings))
names = {}
known = {name for _, _, name in found}
for condition, kind in re.findall(r"if \(((?:\s*tokenizer_pre == \"[^\"]+\"\s*(?:\|\|)?)+)\) \{\s*pre_type = (\w+);", loader):
    names.setdefault(patterns.get(kind), []).extend(name for name in re.findall(r'"([^"]+)"', condition) if name in known)
groups = [dict(names=sorted(group), patterns=list(expressions)) for expressions, group in names.items() if expressions and group]
groups.sort(key=lambda group: group["names"])
(out / "pretokenizer-patterns.json").write_text("[\n" + ",\n".join(" " + json.dumps(group, ensure_ascii=False) for group in groups) + "\n]\n", encoding="utf-8")

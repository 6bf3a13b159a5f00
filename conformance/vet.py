"""Vetting: which chat templates ggmill and c4nary report, on the same GGUF files in one run.

    vet.py GGMILL C4NARY BAD GOOD...

GGMILL is the command, C4NARY the command of the package c4nary (0.3.1). BAD is a directory with templates of
unexpected behavior, GOOD are directories with templates of published models (*.jinja). Each template is put into
a file without tensors. Prints a line for each directory and kind, and the templates on which the two differ.
Of c4nary, its rules about templates (TPL) count, from the severity WARN on, and FAIL alone.

Needs Python 3.10, without packages.
"""

import argparse
import collections
import json
import pathlib
import struct
import subprocess
import tempfile

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf(template):
    """Returns a file with an architecture and a template."""
    pairs = [("general.architecture", "llama"), ("tokenizer.chat_template", template)]
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs))
    return header + b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in pairs)


def by_ggmill(command, file):
    ran = subprocess.run([command, "check", "--profile", "threat", "--quiet", file], capture_output=True, text=True)
    return sorted({reason["rule"] for reason in json.loads(ran.stdout)["reasons"]})


def by_c4nary(command, file):
    ran = subprocess.run([command, "scan", "--json", file], capture_output=True, text=True)
    findings = [one for one in json.loads(ran.stdout)["findings"] if one["rule_id"].startswith("TPL")]
    return [sorted({one["rule_id"] for one in findings if one["severity"] in severities}) for severities in ({"WARN", "FAIL"}, {"FAIL"})]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("ggmill")
    arguments.add_argument("c4nary")
    arguments.add_argument("bad", type=pathlib.Path)
    arguments.add_argument("good", type=pathlib.Path, nargs="+")
    given = arguments.parse_args()
    table = collections.defaultdict(lambda: [0, 0, 0, 0])
    differ = []
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "model.gguf"
        for root in [given.bad, *given.good]:
            for path in sorted(root.glob("*.jinja")):
                file.write_bytes(gguf(path.read_text(encoding="utf-8")))
                ours = by_ggmill(given.ggmill, file)
                theirs, failures = by_c4nary(given.c4nary, file)
                kind = path.stem.split("-")[0] if root == given.bad else f"published ({root.name})"
                row = table[kind]
                row[0] += 1
                row[1] += bool(ours)
                row[2] += bool(theirs)
                row[3] += bool(failures)
                if bool(ours) != bool(theirs):
                    differ.append(f"{path.stem}: ggmill {ours or 'nothing'}, c4nary {theirs or 'nothing'}")
    bad = [row for kind, row in table.items() if not kind.startswith("published")]
    rows = [*table.items(), ("all with unexpected behavior", [sum(column) for column in zip(*bad)])]
    print(f"{'templates':36} {'files':>6} {'ggmill':>7} {'c4nary WARN':>12} {'c4nary FAIL':>12}")
    for kind, (count, ours, theirs, failures) in rows:
        print(f"{kind:36} {count:6} {ours:7} {theirs:12} {failures:12}")
    print("\n".join(differ))


main()

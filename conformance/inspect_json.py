"""Compares what `ggmill inspect --json --full` says with what gguf (PyPI, 0.19.0) reads: every pair, every value, every tensor.

    python inspect_json.py GGMILL PATH ...

GGMILL is the binary; each path is a GGUF file or a directory in which to look for some. The output is held against docs/formats/inspect.schema.json too. Version 1, which gguf
refuses, is left to the fixtures that expect.py writes. Exit status 1 when anything differs.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import gguf
import jsonschema
import numpy as np

SCHEMA = Path(__file__).parents[1] / "docs" / "formats" / "inspect.schema.json"
NAMES = {
    "UINT8": "u8", "INT8": "i8", "UINT16": "u16", "INT16": "i16", "UINT32": "u32", "INT32": "i32", "UINT64": "u64", "INT64": "i64",
    "FLOAT32": "f32", "FLOAT64": "f64", "BOOL": "bool", "STRING": "string", "ARRAY": "array",
}


def text(raw):
    """A string as the output has it."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes_hex": raw.hex()}


def same_number(kind, shown, number):
    """Whether a number of the output is the one in the file, to the last bit."""
    if kind not in ("f32", "f64"):
        # JSON has true and 1, and Python thinks them equal.
        return shown == number.item() and isinstance(shown, bool) == (kind == "bool")
    form = "<f" if kind == "f32" else "<d"
    bits = struct.pack(form, number)
    if isinstance(shown, dict):
        return not np.isfinite(number) and bytes.fromhex(shown["bits"][2:])[::-1] == bits
    return struct.pack(form, np.float32(shown) if kind == "f32" else shown) == bits


def same_values(kind, shown, parts):
    """Whether each shown value is that of its part, which is an array of bytes for a string and of one number otherwise."""
    if kind == "string":
        return shown == [text(part.tobytes()) for part in parts]
    return len(shown) == len(parts) and all(same_number(kind, one, part[0]) for one, part in zip(shown, parts))


def compare_pair(shown, name, field, findings):
    kinds = [NAMES[kind.name] for kind in field.types]
    if shown["key"] != name or shown["type"] != kinds[0]:
        findings.append(f"{name} of type {kinds[0]}: shown as {shown['key']} of type {shown['type']}")
        return
    parts = [field.parts[number] for number in field.data]
    if kinds[0] != "array":
        if not same_values(kinds[0], [shown["value"]], parts):
            findings.append(f"{name}: shown as {shown['value']!r}")
        return
    if len(kinds) > 2:
        raise NotImplementedError(f"{name}: an array of arrays")
    if len(kinds) == 1:
        kinds.append(shown["element"])  # Of an empty array gguf does not tell.
    if "truncated" in shown or shown["length"] != len(parts) or shown["element"] != kinds[1]:
        findings.append(f"{name}: {len(parts)} of {kinds[1]}, shown as {shown['length']} of {shown['element']}")
    elif not same_values(kinds[1], shown["value"], parts):
        findings.append(f"{name}: elements differ")


def compare_tensor(shown, tensor, findings):
    expected = {
        "name": tensor.name,
        "type": tensor.tensor_type.name,
        "shape": [int(dimension) for dimension in tensor.shape],
        "offset": int(tensor.data_offset),
        "size": int(tensor.n_bytes),
        "shard": 0,
    }
    if shown != expected:
        findings.append(f"tensor {expected}: shown as {shown}")


def compare(shown, path):
    """The differences between the output and the file."""
    reader = gguf.GGUFReader(path)
    findings = []
    head = {
        "schema": "ggmill.inspect/1",
        "version": int(reader.fields["GGUF.version"].parts[0][0]),
        "endian": "little" if reader.endianess == gguf.GGUFEndian.LITTLE else "big",
        "alignment": int(reader.alignment),
        "file_size": path.stat().st_size,
    }
    if reader.tensors:
        head["data_offset"] = int(reader.data_offset)
    findings += [f"{key} {value}: shown as {shown.get(key)}" for key, value in head.items() if shown.get(key) != value]

    fields = [(name, field) for name, field in reader.fields.items() if not name.startswith("GGUF.")]
    if len(fields) != len(shown["metadata"]):
        findings.append(f"{len(fields)} pairs: shown {len(shown['metadata'])}")
    for one, (name, field) in zip(shown["metadata"], fields):
        compare_pair(one, name, field, findings)

    if len(reader.tensors) != len(shown["tensors"]):
        findings.append(f"{len(reader.tensors)} tensors: shown {len(shown['tensors'])}")
    for one, tensor in zip(shown["tensors"], reader.tensors):
        compare_tensor(one, tensor, findings)

    types = {}
    for tensor in reader.tensors:
        entry = types.setdefault(tensor.tensor_type.name, {"tensors": 0, "bytes": 0})
        entry["tensors"] += 1
        entry["bytes"] += int(tensor.n_bytes)
    sums = {"parameters": sum(int(tensor.n_elements) for tensor in reader.tensors), "tensor_bytes": sum(entry["bytes"] for entry in types.values()), "types": types}
    findings += [f"{key} {value}: shown as {shown['summary'].get(key)}" for key, value in sums.items() if shown["summary"].get(key) != value]
    return findings


def main(ggmill, *paths):
    files = [file for path in map(Path, paths) for file in (sorted(path.rglob("*.gguf")) if path.is_dir() else [path])]
    if not files:
        sys.exit("no GGUF files")
    schema = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    failed = 0
    for path in files:
        with path.open("rb") as file:
            if file.read(8) == b"GGUF\x01\0\0\0":
                print(f"skipped {path.name}: version 1, which gguf refuses")
                continue
        output = subprocess.run([ggmill, "inspect", "--json", "--full", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
        shown = json.loads(output)
        findings = [f"schema: {error.message[:200]}" for error in schema.iter_errors(shown)] + compare(shown, path)
        failed += bool(findings)
        print(f"{'DIFFERS' if findings else 'agrees'}  {path.name}: {len(shown['metadata'])} pairs, {len(shown['tensors'])} tensors")
        for finding in findings[:20]:
            print(f"  {finding}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

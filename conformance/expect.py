"""What an independent reader finds in GGUF files, as fixtures for this project's tests.

    python expect.py DIRECTORY FILE.gguf ...

writes DIRECTORY/FILE.json for each file, and DIRECTORY/writer-example.gguf: the example of the specification's page on gguf's writer, as that writer makes it.
Versions 2 and 3 are read by gguf (PyPI, 0.19.0); version 1, which it refuses, by the short reader below. The fixtures are committed under
crates/ggmill-testdata/expected and compared by ggmill-core's tests, so that plain `cargo test` needs no Python.

A fixture has, in the order of the file:

- metadata: key and type for every pair; `value` for what is no array (a float as `repr` and `bits`, a string as text or, where it is not UTF-8, as
  {"hex": ...}); for an array `element`, `length`, the `first` three values, and the `sha256` of all elements as version 3 writes them in little-endian order:
  numbers back to back, each string as its length in 64 bits and its bytes;
- tensors: name, type, shape (ne[0] first), offset from the start of the file, size in bytes, SHA-256 of the data.

`data_offset` is null where there are no tensors: gguf pads it then, the reference's writer does not.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

NAMES = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"]
FORMATS = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f", "bool": "?", "u64": "Q", "i64": "q", "f64": "d"}


def shown(kind, value):
    """A value as JSON can hold it without loss."""
    if kind == "string":
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    if kind in ("f32", "f64"):
        bits = struct.pack(">" + FORMATS[kind], value).hex()
        return {"repr": repr(value), "bits": bits}
    return value


def encoded(kind, value):
    """A value as version 3 writes it, little-endian."""
    if kind == "string":
        return struct.pack("<Q", len(value)) + value
    return struct.pack("<" + FORMATS[kind], value)


def pair(key, kind, value):
    """A fixture's entry for one pair; `value` is (element type, list) for an array."""
    entry = {"key": shown("string", key), "type": kind}
    if kind != "array":
        return entry | {"value": shown(kind, value)}
    element, elements = value
    digest = hashlib.sha256()
    for one in elements:
        digest.update(encoded(element, one))
    first = [shown(element, one) for one in elements[:3]]
    return entry | {"element": element, "length": len(elements), "first": first, "sha256": digest.hexdigest()}


def by_gguf(path):
    """Reads a file of version 2 or 3 with the gguf package."""
    import gguf

    reader = gguf.GGUFReader(path)

    def one(kind, part):
        return part.tobytes() if kind == "string" else part[0].item()

    metadata = []
    for name, field in reader.fields.items():
        if name.startswith("GGUF."):
            continue
        kinds = [NAMES[int(kind)] for kind in field.types]
        if kinds[0] != "array":
            metadata.append(pair(name.encode(), kinds[0], one(kinds[0], field.parts[field.data[0]])))
            continue
        if len(kinds) != 2:
            raise NotImplementedError(f"{name}: nested array")
        elements = [one(kinds[1], field.parts[number]) for number in field.data]
        metadata.append(pair(name.encode(), "array", (kinds[1], elements)))
    tensors = []
    for tensor in reader.tensors:
        data = tensor.data.tobytes()
        if len(data) != tensor.n_bytes:
            raise ValueError(f"{tensor.name}: {len(data)} bytes, expected {tensor.n_bytes}")
        tensors.append({
            "name": tensor.name,
            "type": tensor.tensor_type.name,
            "shape": [int(dimension) for dimension in tensor.shape],
            "offset": int(tensor.data_offset),
            "size": int(tensor.n_bytes),
            "sha256": hashlib.sha256(data).hexdigest(),
        })
    version = int(reader.fields["GGUF.version"].parts[0][0])
    return {
        "source": "gguf 0.19.0",
        "version": version,
        "endian": "little" if reader.endianess == gguf.GGUFEndian.LITTLE else "big",
        "alignment": int(reader.alignment),
        "data_offset": int(reader.data_offset) if tensors else None,
        "metadata": metadata,
        "tensors": tensors,
    }


def version_1(data):
    """Reads a little-endian file of version 1 without tensors: counts and lengths have 32 bits."""
    place = 8

    def take(form):
        nonlocal place
        (value,) = struct.unpack_from("<" + form, data, place)
        place += struct.calcsize("<" + form)
        return value

    def string():
        nonlocal place
        length = take("I")
        place += length
        return data[place - length : place]

    def value(kind):
        if kind == "string":
            return string()
        if kind == "array":
            element = NAMES[take("I")]
            return element, [value(element) for _ in range(take("I"))]
        return take(FORMATS[kind])

    tensors, pairs = take("I"), take("I")
    if tensors:
        raise NotImplementedError("version 1 with tensors")
    metadata = []
    for _ in range(pairs):
        key = string()
        kind = NAMES[take("I")]
        metadata.append(pair(key, kind, value(kind)))
    return {
        "source": "expect.py",
        "version": 1,
        "endian": "little",
        "alignment": 32,
        "data_offset": None,
        "metadata": metadata,
        "tensors": [],
    }


def example(target):
    """The example of the specification's page on the Python writer."""
    import gguf
    import numpy

    writer = gguf.GGUFWriter(target, "llama")
    writer.add_architecture()
    writer.add_block_count(12)
    writer.add_uint32("answer", 42)
    writer.add_float32("answer_in_float", 42.0)
    writer.add_custom_alignment(64)
    for number, (length, value) in enumerate([(32, 100.0), (64, 101.0), (96, 102.0)], start=1):
        writer.add_tensor(f"tensor{number}", numpy.ones((length,), dtype=numpy.float32) * value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(directory, *paths):
    example(Path(directory) / "writer-example.gguf")
    for path in map(Path, paths):
        data = path.read_bytes()
        found = version_1(data) if data[:8] == b"GGUF\x01\0\0\0" else by_gguf(path)
        expected = {"file": path.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} | found
        target = Path(directory) / (path.name + ".json")
        # One line for each pair and tensor, so that a difference shows where it is.
        head = {key: value for key, value in expected.items() if key not in ("metadata", "tensors")}
        text = json.dumps(head, ensure_ascii=False)[:-1]
        for part in ("metadata", "tensors"):
            lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in expected[part])
            text += f',\n"{part}": [\n{lines}\n]'
        target.write_text(text + "}\n", encoding="utf-8")
        print(target)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

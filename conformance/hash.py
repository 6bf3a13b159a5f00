"""Hashes of tensor data by hashlib, xxhash and blake3, as read by gguf: the second opinion on `ggmill hash`.

    hash.py --write DIRECTORY FILE...    write DIRECTORY/NAME.manifest for each file
    hash.py GGMILL FILE...            compare what GGMILL prints, and have it check these manifests
"""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import uuid

import blake3
import gguf
import xxhash

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "en.wikipedia.org/wiki/Llama.cpp")
HASHES = {"xxh64": xxhash.xxh64, "sha1": hashlib.sha1, "sha256": hashlib.sha256, "blake3": blake3.blake3}


def manifest(path: pathlib.Path, name: str) -> str | None:
    """The lines for a file under this name, or nothing for a file gguf cannot read."""
    try:
        reader = gguf.GGUFReader(path)
    except ValueError as error:
        print(f"{path.name}: gguf cannot read it: {error}")
        return None
    lines = []
    whole = {kind: make() for kind, make in HASHES.items()}
    identifier = hashlib.sha1(NAMESPACE.bytes)
    for tensor in reader.tensors:
        data = tensor.data.tobytes()
        for kind, make in HASHES.items():
            lines.append(f"{kind:<8}  {make(data).hexdigest()}  {name}:{tensor.name}")
            whole[kind].update(data)
        identifier.update(data)
    lines += [f"{kind:<8}  {state.hexdigest()}  {name}" for kind, state in whole.items()]
    lines.append(f"{'uuid':<8}  {uuid.UUID(bytes=identifier.digest()[:16], version=5)}  {name}")
    return "\n".join(lines) + "\n"


def write(directory: pathlib.Path, files: list[pathlib.Path]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for path in files:
        if text := manifest(path, path.name):
            (directory / f"{path.name}.manifest").write_text(text)
            print(f"{path.name}: {text.count(chr(10))} lines")


def compare(ggmill: str, files: list[pathlib.Path]) -> int:
    failures = 0
    for path in files:
        expected = manifest(path, path.name)
        if expected is None:
            continue
        run = lambda *args: subprocess.run([ggmill, "hash", path.name, *args], cwd=path.parent, capture_output=True, text=True)
        found = run("--all", "--uuid").stdout
        with tempfile.NamedTemporaryFile("w", suffix=".manifest") as file:
            file.write(expected)
            file.flush()
            code = run("--all", "--uuid", "--check", file.name).returncode
        good = found == expected and code == 0
        failures += not good
        print(f"{path.name}: {expected.count(chr(10))} lines {'equal' if good else 'DIFFER'}")
    return min(failures, 1)


if __name__ == "__main__":
    first, *rest = sys.argv[1:]
    if first == "--write":
        write(pathlib.Path(rest[0]), [pathlib.Path(name) for name in rest[1:]])
    else:
        sys.exit(compare(str(pathlib.Path(first).resolve()), [pathlib.Path(name) for name in rest]))

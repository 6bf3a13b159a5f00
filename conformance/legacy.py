"""The reference's converter of files from before GGUF, run over generated ones: what it makes of them, as hashes.

With gguf 0.19.0 the script takes the shape of raw bytes for that of elements, so that rows come out shorter by the size of an element and quantized types are
refused. Here the writer is told the shape in bytes, as it wants it; everything else is the script's own.
"""

import hashlib
import importlib.util
import json
import os
import pathlib
import sys

os.environ["NO_LOCAL_GGUF"] = "1"
import gguf


def main():
    script, directory, target = map(pathlib.Path, sys.argv[1:])
    spec = importlib.util.spec_from_file_location("reference", script)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)

    add_tensor = gguf.GGUFWriter.add_tensor

    def add_raw(self, name, tensor, raw_shape=None, raw_dtype=None):
        elements, size = gguf.GGML_QUANT_SIZES[raw_dtype]
        *rows, columns = raw_shape
        add_tensor(self, name, tensor, raw_shape=[*rows, columns // elements * size], raw_dtype=raw_dtype)

    gguf.GGUFWriter.add_tensor = add_raw
    found = {}
    for path in sorted(directory.glob("*.bin")):
        output = path.with_suffix(".gguf")
        sys.argv = [str(script), "-i", str(path), "-o", str(output)]
        try:
            reference.main()
        except ValueError as error:
            print(f"{path.name}: {error}")
            continue
        found[path.name] = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in [("input", path), ("output", output)]}
    target.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(found)} files: {target}")


if __name__ == "__main__":
    main()

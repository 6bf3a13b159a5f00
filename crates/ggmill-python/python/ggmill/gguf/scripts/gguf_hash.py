"""gguf-hash: print hashes of the tensors of a file."""

from __future__ import annotations

import argparse
import hashlib
import uuid

from .._optional import bar
from ..gguf_reader import GGUFReader
from ._ask import arguments

UUID_NAMESPACE_LLAMA_CPP = uuid.UUID("ef001206-dadc-5f6d-a15f-3359e577d4e5")

# Unused tensors of older files.
_LEFT_OUT = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")


def gguf_hash(
    reader: GGUFReader, filename: str, disable_progress_bar: bool, no_layer: bool
) -> None:
    """Print the SHA-1 and SHA-256 of each tensor and of the whole model, and a UUID."""
    tensors = [one for one in reader.tensors if not one.name.endswith(_LEFT_OUT)]
    shown = None
    if not disable_progress_bar:
        shown = bar("Hashing", sum(one.n_elements for one in tensors), "weights")
    whole = {"sha1": hashlib.sha1(), "sha256": hashlib.sha256()}
    identity = hashlib.sha1(UUID_NAMESPACE_LLAMA_CPP.bytes)
    for tensor in tensors:
        data = tensor.data.data
        for name, hasher in whole.items():
            if not no_layer:
                digest = hashlib.new(name, data).hexdigest()
                print(f"{name:9} {digest}  {filename}:{tensor.name}")
            hasher.update(data)
        identity.update(data)
        if shown is not None:
            shown.update(tensor.n_elements)
    if shown is not None:
        shown.close()
    for name, hasher in whole.items():
        print(f"{name:9} {hasher.hexdigest()}  {filename}")
    print(f"uuid      {uuid.UUID(bytes=identity.digest()[:16], version=5)}  {filename}")


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Hashes of the tensors of a GGUF file")
    parser.add_argument("model", type=str, help="GGUF format model filename")
    parser.add_argument("--no-layer", action="store_true", help="exclude per layer hash")
    parser.add_argument("--progressbar", action="store_true", help="enable progressbar")
    args = arguments(parser)
    gguf_hash(GGUFReader(args.model, "r"), args.model, not args.progressbar, args.no_layer)


if __name__ == "__main__":
    main()

"""Writes crates/ggmill-tokenizer/tests/vocabularies/names.txt: for every name of a pre-tokenizer the SHA-256 of what libllama makes of the sample with it.

    python tokenization_names.py LLAMA_CPP

The vocabulary is small-bpe.gguf with that name in `tokenizer.ggml.pre`; texts are those of sample.texts, each ten joined, as libllama compiles the regular
expressions for every text. Hashed are the IDs without special tokens: for each text a count and so many numbers of 32 bits, the least significant byte first.
The interpreter needs llama-cpp-python 0.3.36; LLAMA_CPP is its source tree of llama.cpp, which has the names.
"""

import hashlib
import struct
import sys
import tempfile
from pathlib import Path

import tokenization
import tokenization_models
import tokenization_texts

DIRECTORY = Path(__file__).parents[1] / "crates/ggmill-tokenizer/tests/vocabularies"
JOINED = 10


def main(llama_cpp):
    sample = list(tokenization_texts.read(DIRECTORY / "sample.texts"))
    joined = [b"".join(sample[at:at + JOINED]) for at in range(0, len(sample), JOINED)]
    lines = []
    with tempfile.TemporaryDirectory() as place:
        texts = Path(place) / "texts"
        tokenization_texts.write(texts, joined)
        for name in tokenization_models.pre_names(Path(llama_cpp)):
            # With `whitespace`, words of other models have spaces, over which the reference stops the process.
            if name == "whitespace":
                continue
            model, out = Path(place) / "model.gguf", Path(place) / "results"
            model.write_bytes(tokenization_models.small_bpe(pre=name))
            out.unlink(missing_ok=True)
            tokenization.reference(model, texts, len(joined), out)
            results, digest = out.read_bytes(), hashlib.sha256()
            for start, _ in tokenization.records(results, len(joined)):
                (count,) = struct.unpack_from("<I", results, start)
                assert count != tokenization.REFUSED, name
                digest.update(results[start:start + 4 + 4 * count])
            lines.append(f"{name} {digest.hexdigest()}")
            print(lines[-1], flush=True)
    (DIRECTORY / "names.txt").write_text("# Written by conformance/tokenization_names.py with llama-cpp-python 0.3.36.\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(__doc__) if len(sys.argv) != 2 else main(sys.argv[1])

"""Lets libllama continue a text with the files that `ggmill convert` makes of the bundled checkpoint.

    python speak.py GGMILL DIRECTORY

GGMILL is the binary, DIRECTORY the checkpoint as Hugging Face has it. It is converted to each type, loaded by llama-cpp-python (0.3.36), vocabulary
included, and asked to continue "Once upon a time", at each step with the most probable token. A file in which weights or vocabulary are wrong says something
else. Exit status 1 when the words are not those of the model.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from llama_cpp import Llama

PROMPT = "Once upon a time"
WORDS = ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball."
TYPES = ["f32", "f16", "bf16", "q8_0"]


def continued(path):
    model = Llama(str(path), n_ctx=256, verbose=False, n_threads=1)
    text = model.create_completion(PROMPT, max_tokens=100, temperature=0.0, top_k=1, repeat_penalty=1.0)["choices"][0]["text"]
    model.close()
    return text


def main(ggmill, directory):
    wrong = 0
    with tempfile.TemporaryDirectory() as work:
        for kind in TYPES:
            path = Path(work) / f"{kind}.gguf"
            subprocess.run([ggmill, "convert", directory, "-o", path, "--type", kind, "--quiet"], stdin=subprocess.DEVNULL, check=True)
            text = continued(path)
            agrees = text.startswith(WORDS)
            wrong += not agrees
            print(f"{'agrees' if agrees else 'DIFFERS'}  {kind}: {text[:len(WORDS)]!r}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

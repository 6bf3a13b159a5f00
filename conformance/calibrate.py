#!/usr/bin/env python3
"""Compare calibrated rounding with rounding weight by weight and an importance matrix of the same text, at the same types: the KL divergence on text that was held out.

usage: calibrate.py GGMILL DIRECTORY MODEL [--types TYPE,TYPE,…]

MODEL is the directory of tinystories260K. The texts are 24 chunks of 512 tokens that the model tells itself, from a fixed seed, and 12 others for the test. Embeddings stay
in F32. Exit status 1 when calibrated rounding is not better for every type.
"""

import json
import pathlib
import subprocess
import sys

from fit import CONTEXT, story_tokens


def main():
    words, types = sys.argv[1:], ["IQ4_NL", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
    if "--types" in words:
        place = words.index("--types")
        types = words[place + 1].split(",")
        del words[place : place + 2]
    ggmill, directory, model = words[0], pathlib.Path(words[1]), pathlib.Path(words[2])
    directory.mkdir(parents=True, exist_ok=True)
    at = lambda name: directory / f"calibrate-{name}"

    def run(*command):
        return subprocess.run([ggmill, *map(str, command)], check=True, capture_output=True, text=True).stdout

    run("convert", model, "-o", at("base.gguf"), "--type", "f32", "--force")
    tokens = [int(token) for token in story_tokens(model, 36)]
    at("text.json").write_text(json.dumps(tokens[: 24 * CONTEXT]))
    at("test.json").write_text(json.dumps(tokens[24 * CONTEXT :]))
    run("imatrix", "make", at("base.gguf"), "--tokens", at("text.json"), "-o", at("imatrix.gguf"), "--force")
    is_better = True
    print("| type | importance matrix | calibrated | ratio |\n|---|---|---|---|")
    for name in types:
        found = []
        for options in (["--imatrix", at("imatrix.gguf")], ["--calibrate-tokens", at("text.json")]):
            run("quantize", at("base.gguf"), at("out.gguf"), name, "--pure", "--token-embedding-type", "f32", "--force", *options)
            report = json.loads(run("measure", at("out.gguf"), "--against", at("base.gguf"), "--tokens", at("test.json"), "--json"))
            found.append(report["models"][0]["comparison"]["kl_divergence"]["mean"]["value"])
        is_better &= found[1] < found[0]
        print(f"| {name} | {found[0]:.4f} | {found[1]:.4f} | {found[1] / found[0]:.2f} |")
    sys.exit(not is_better)


main()

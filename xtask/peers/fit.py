#!/usr/bin/env python3
"""Compare the types that `ggmill quantize --target-size` chooses with the mixtures of the same size, by what each loses.

usage: fit.py GGMILL DIRECTORY MODEL [IMATRIX]

MODEL is a GGUF file of 16 or 32 bits, or the directory of a checkpoint. What is lost is measured over all of every file (`--report`), not on samples. Exit status 1
when a choice loses more than the mixture or is larger.
"""

import json
import math
import pathlib
import subprocess
import sys

TARGETS = ["Q2_K", "Q3_K_S", "Q3_K_M", "IQ4_XS", "Q4_0", "Q4_K_S", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0"]


def main():
    ggmill, directory, model, *imatrix = sys.argv[1:]
    directory, model = pathlib.Path(directory), pathlib.Path(model)
    if model.is_dir():
        source = directory / "fit-source.gguf"
        subprocess.run([ggmill, "--quiet", "convert", model, "-o", source, "--type", "f16", "--force"], check=True, stdout=subprocess.DEVNULL)
        model = source
    out, report = directory / "fit-out.gguf", directory / "fit-out.json"

    def lost(*options):
        command = [ggmill, "--quiet", "quantize", model, out, *options, "--force", "--report", report, "--json"]
        if imatrix:
            command += ["--imatrix", imatrix[0]]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = json.loads(report.read_text())
        return out.stat().st_size, found["bits_per_weight"], found["relative"]

    print("| mixture | bytes | bits per weight | error | fitted: bytes | error | squared error, of the mixture's |\n|---|---:|---:|---:|---:|---:|---:|")
    good = True
    for target in TARGETS:
        size, bits, mixture = lost(target)
        fitted_size, _, fitted = lost("--target-size", str(size))
        good &= fitted <= mixture * (1 + 1e-9) and fitted_size <= size
        part = fitted / mixture if mixture else 1.0
        print(f"| {target} | {size:,} | {bits:.3f} | {100 * math.sqrt(mixture):.3f} % | {fitted_size:,} | {100 * math.sqrt(fitted):.3f} % | {100 * part:.1f} % |")
    out.unlink()
    report.unlink()
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

#!/usr/bin/env python3
"""Errors of tensors that come from a source, and of tensors that do not, against the bounds of `ggmill verify`.

    python3 verify_bounds.py GGMILL

Quantizes two models with the same weights, normally distributed and with heavy tails (Student's t with 3 degrees of freedom), one of
them with some tensors exchanged between layers, with an importance matrix whose weights are log-normal (sigma 2). Verifies both without
the matrix, and prints for each type the errors as multiples of the expected ones. Fails if a tensor of the first is not consistent, or
an exchanged one of the second is not different. Needs numpy and gguf.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np

TYPES = (
    "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL IQ4_XS Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M TQ2_0 MXFP4_MOE NVFP4"
).split()
WIDTH = 512
LAYERS = 4
ROLES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down", "ffn_gate"]
EXCHANGED = ["attn_q", "attn_k", "ffn_up"]


def weights(random):
    for layer in range(LAYERS):
        for role in ROLES:
            shape = (WIDTH, WIDTH)
            values = random.standard_t(3, shape) * 0.02 if layer % 2 else random.standard_normal(shape) * 0.03
            yield f"blk.{layer}.{role}.weight", values.astype(np.float32)


def write_model(path, tensors):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(8)
    writer.add_context_length(128)
    writer.add_layer_norm_rms_eps(1e-5)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    close(writer)


def write_imatrix(path, names, random):
    writer = gguf.GGUFWriter(path, "imatrix")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["synthetic"])
    writer.add_uint32("imatrix.chunk_count", 4)
    writer.add_uint32("imatrix.chunk_size", 512)
    for name in names:
        sums = np.exp(random.standard_normal(WIDTH) * 2).astype(np.float32) * 100
        writer.add_tensor(f"{name}.in_sum2", sums.reshape(1, -1))
        writer.add_tensor(f"{name}.counts", np.array([[100]], dtype=np.float32))
    close(writer)


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def verified(ggmill, model, source, ggml_type, matrix):
    out = model.with_suffix(".quantized")
    quantize = [ggmill, "quantize", model, out, ggml_type, "--pure", "--imatrix", matrix, "--quiet", "--force"]
    subprocess.run(quantize, check=True, stdout=subprocess.DEVNULL)
    found = subprocess.run([ggmill, "verify", out, "--from", source, "--json", "--quiet"], stdout=subprocess.PIPE)
    return [tensor for tensor in json.loads(found.stdout)["tensors"]["not_identical"] if "error" in tensor]


def ratios(tensors):
    def ratio(part):
        return part["error"] / max(part["expected_error"], 1e-9 * part["signal"])

    found = [(ratio(tensor), ratio(tensor["worst_block"])) for tensor in tensors]
    spans = [f"{min(column):.3g} to {max(column):.3g}" for column in zip(*found)] if found else ["-", "-"]
    return " | ".join(spans)


def main():
    ggmill = str(pathlib.Path(sys.argv[1]).resolve())
    random = np.random.default_rng(1)
    tensors = dict(weights(random))
    exchanged = dict(tensors)
    for layer in range(LAYERS // 2):
        for role in EXCHANGED:
            a, b = (f"blk.{layer + more}.{role}.weight" for more in (0, 2))
            exchanged[a], exchanged[b] = exchanged[b], exchanged[a]
    failed = False
    print("| type | with an importance matrix: tensors | worst block | exchanged: tensors | worst block |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        source, other, matrix = (place / name for name in ("source.gguf", "exchanged.gguf", "imatrix.gguf"))
        write_model(source, tensors)
        write_model(other, exchanged)
        write_imatrix(matrix, tensors, random)
        for ggml_type in TYPES:
            ours = verified(ggmill, source, source, ggml_type, matrix)
            theirs = verified(ggmill, other, source, ggml_type, matrix)
            theirs = [tensor for tensor in theirs if tensor["name"].split(".")[2] in EXCHANGED]
            print(f"| {ggml_type} | {ratios(ours)} | {ratios(theirs)} |", flush=True)
            wrong = [tensor["name"] for tensor in ours if tensor["verdict"] != "consistent"]
            wrong += [tensor["name"] for tensor in theirs if tensor["verdict"] != "different"]
            wrong += [] if len(theirs) == LAYERS * len(EXCHANGED) else ["number of exchanged tensors"]
            if wrong:
                failed = True
                print(f"{ggml_type}: {wrong}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()

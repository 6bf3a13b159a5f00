"""Compares what ggmill-run computes of WavTokenizer's decoder with a computation in double precision.

    python logits_wavtokenizer.py compare DIRECTORY             print the errors; exit status 1 where ggmill's is more than 1e-11
    python logits_wavtokenizer.py record DIRECTORY FIXTURES     the same, and write the results to FIXTURES/wavtokenizer-dec.f32

DIRECTORY is written by `cargo run -p ggmill-run --example models DIRECTORY wavtokenizer-dec`. libllama rounds the operands of convolutions to half precision, and looks GELU up in a table of it, so that
logits.py shows less: here the same is computed without that rounding, for ggmill, and with the rounding of operands, for libllama. Each error is NMSE. Needs gguf 0.19.0, llama-cpp-python 0.3.36 and numpy.
"""

import sys
from pathlib import Path

import numpy
from gguf import GGUFReader
from libllama import alone
from logits import computed


def half(values):
    return values.astype(numpy.float16).astype(numpy.float64)


class Decoder:
    """WavTokenizer's decoder: tokens × channels between all layers."""

    def __init__(self, path, rounds):
        reader = GGUFReader(path)
        self.weights = {tensor.name: tensor.data.astype(numpy.float64) for tensor in reader.tensors}
        self.numbers = {name.partition(".")[2]: field.contents() for name, field in reader.fields.items() if name.startswith("wavtokenizer")}
        self.rounds = half if rounds else lambda values: values

    def convolved(self, x, name):
        kernel, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"].reshape(-1)
        taps = kernel.shape[-1]
        padded = numpy.pad(x, ((taps // 2, taps // 2), (0, 0)))
        windows = numpy.stack([padded[start : start + len(x)] for start in range(taps)], axis=-1)
        if kernel.shape[1] == 1 and x.shape[1] > 1:
            return numpy.einsum("tck,ck->tc", self.rounds(windows), self.rounds(kernel[:, 0])) + bias
        return numpy.einsum("tck,ock->to", self.rounds(windows), self.rounds(kernel)) + bias

    def group_normalized(self, x, name):
        groups = x.reshape(len(x), self.numbers["attention.group_norm_groups"], -1)
        centered = groups - groups.mean(axis=(0, 2), keepdims=True)
        normalized = centered / numpy.sqrt((centered**2).mean(axis=(0, 2), keepdims=True) + self.numbers["attention.group_norm_epsilon"])
        return normalized.reshape(x.shape) * self.weights[f"{name}.weight"].reshape(-1) + self.weights[f"{name}.bias"].reshape(-1)

    def normalized(self, x, name):
        centered = x - x.mean(axis=1, keepdims=True)
        normalized = centered / numpy.sqrt((centered**2).mean(axis=1, keepdims=True) + self.numbers["attention.layer_norm_epsilon"])
        return normalized * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def attended(self, x, block):
        q, k, v = (self.convolved(x, f"{block}.attn_{which}") for which in "qkv")
        scores = q @ k.T / numpy.sqrt(x.shape[1])
        shares = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        return self.convolved(shares / shares.sum(axis=1, keepdims=True) @ v, f"{block}.attn_output")

    def run(self, tokens):
        silu = lambda x: x / (1 + numpy.exp(-x))
        gelu = lambda x: x / 2 * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))
        x = self.convolved(self.weights["token_embd.weight"][tokens], "conv1d")
        for number in range(self.numbers["posnet.block_count"]):
            block = f"posnet.{number}"
            if number == 2:
                x = x + self.attended(self.group_normalized(x, f"{block}.attn_norm"), block)
            elif number == 5:
                x = self.group_normalized(x, f"{block}.attn_norm")
            else:
                n = self.convolved(silu(self.group_normalized(x, f"{block}.norm1")), f"{block}.conv1")
                x = x + self.convolved(silu(self.group_normalized(n, f"{block}.norm2")), f"{block}.conv2")
        x = self.normalized(x, "token_embd_norm")
        for number in range(self.numbers["convnext.block_count"]):
            block = f"convnext.{number}"
            n = self.normalized(self.convolved(x, f"{block}.dw"), f"{block}.norm")
            x = x + self.linear(gelu(self.linear(n, f"{block}.pw1")), f"{block}.pw2") * self.weights[f"{block}.gamma.weight"]
        return self.linear(self.normalized(x, "output_norm"), "output")


def error(ours, theirs):
    return ((ours - theirs) ** 2).sum() / (theirs**2).sum()


def main():
    word, directory = sys.argv[1], Path(sys.argv[2])
    path = directory / "wavtokenizer-dec.gguf"
    recorded, tokens, _ = (directory / "tokens.txt").read_text().splitlines()
    tokens = [int(token) for token in tokens.split()]
    exact, rounded = Decoder(path, False).run(tokens), Decoder(path, True).run(tokens)
    ours = numpy.fromfile(directory / "wavtokenizer-dec.ours", numpy.float32).reshape(exact.shape).astype(numpy.float64)
    rows, reasons = alone(computed, path, tokens, True, [])
    if rows is None:
        raise SystemExit("\n".join(["libllama fails", *reasons[-3:]]))
    found = error(ours, exact)
    print(f"ggmill: NMSE {found:.1e}")
    print(f"libllama: NMSE {error(numpy.array(rows), exact):.1e}, of the computation with its rounding of convolutions {error(numpy.array(rows), rounded):.1e}")
    if word == "record":
        exact[:: len(exact) // int(recorded)].astype("<f4").tofile(Path(sys.argv[3]) / "wavtokenizer-dec.f32")
    raise SystemExit(1 if found > 1e-11 else 0)


if __name__ == "__main__":
    main()

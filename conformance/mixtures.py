#!/usr/bin/env python3
"""Write the reference's own expectations of mixtures in short form, with the tensors they are about.

usage: mixtures.py SNAPSHOTS OUTPUT_DIR

SNAPSHOTS is tests/snapshots of llama.cpp, as in the source distribution of llama-cpp-python: for twelve real models the type of every tensor in a file of every
type. Those files name tensors, but not their shapes, and name no tensor that always has the default type. MODELS says what they leave out, from the models'
published configurations: the architecture, row lengths by parts of names (the first that is found), and which tensors are stacks of experts or heads.
"""

import pathlib
import re
import sys

# file: architecture, row length of anything else, row lengths by parts of names, parts of names of stacks.
EXPERTS = ["_exps."]
MODELS = {
    "deepseek-v3.1": ("deepseek2", 7168, {"attn_q_b": 1536, "attn_kv_b": 512, "attn_k_b": 128, "attn_v_b": 512, "attn_output": 16384, "ffn_down.": 18432,
                                          "ffn_down_": 2048}, EXPERTS + ["attn_k_b", "attn_v_b"]),
    "gemma-3-4b-it": ("gemma3", 2560, {"attn_output": 2048, "ffn_down": 10240}, []),
    "glm-4.6v": ("glm4moe", 4096, {"attn_output": 12288, "ffn_down.": 10944, "ffn_down_": 1408, "eh_proj": 8192}, EXPERTS),
    "gpt-oss-120b": ("gpt-oss", 2880, {"attn_output": 4096}, EXPERTS),
    "meta-llama-3.1-70b-instruct": ("llama", 8192, {"ffn_down": 28672}, []),
    "nvidia-nemotron-3-nano-30b-a3b": ("nemotron_h_moe", 2688, {"attn_output": 4096, "ssm_out": 4096, "ffn_down_exps": 1856, "ffn_down_shexp": 3712}, EXPERTS),
    "qwen3-0.6b": ("qwen3", 1024, {"attn_output": 2048, "ffn_down": 3072}, []),
    "qwen3-14b": ("qwen3", 5120, {"attn_output": 5120, "ffn_down": 17408}, []),
    "qwen3-coder-next": ("qwen3next", 2048, {"attn_output": 4096, "ssm_out": 4096, "ffn_down": 512}, EXPERTS),
    "qwen3.5-397b-a17b": ("qwen35moe", 4096, {"attn_output": 8192, "ssm_out": 8192, "ffn_down": 1024}, EXPERTS),
    "qwen3.6-27b": ("qwen35", 5120, {"attn_output": 6144, "ssm_out": 6144, "ffn_down": 17408, "eh_proj": 10240}, []),
    "step-3.5-flash": ("step35", 4096, {"attn_output": 8192, "ffn_down.": 11264, "ffn_down_": 1280, "eh_proj": 8192}, EXPERTS),
}


def sections(path):
    """Hyperparameters; for each file type its default and the tensors that have another."""
    hyper, found, current = {}, {}, None
    for line in path.read_text().splitlines():
        if line.startswith("# n_embd"):
            hyper = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
        elif match := re.fullmatch(r"\[(\w+)\] (\w+)", line):
            current = found[match[1]] = (match[2].upper(), {})
        elif line and not line.startswith("#"):
            name, kind = line.rsplit(" ", 1)
            current[1][name] = kind.upper()
    return hyper, found


def ranges(numbers):
    numbers, out = sorted(numbers), []
    while numbers:
        end = next((i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1), len(numbers))
        out.append(f"{numbers[0]}" if end == 1 else f"{numbers[0]}-{numbers[end - 1]}")
        numbers = numbers[end:]
    return ",".join(out)


def grouped(names):
    """Names with the same ending in one: the ending, and the numbers of the layers, `-` for none."""
    by_ending = {}
    for name in names:
        match = re.fullmatch(r"blk\.(\d+)\.(.*)", name)
        by_ending.setdefault(match[2] if match else name, []).append(int(match[1]) if match else None)
    return [(ending, "-" if None in layers else ranges(layers)) for ending, layers in sorted(by_ending.items())]


def main():
    snapshots, output = map(pathlib.Path, sys.argv[1:])
    for model, (architecture, width, widths, stacks) in MODELS.items():
        hyper, found = sections(snapshots / f"{model}.schema")
        names = {name for _, others in found.values() for name in others}
        # Experts have their default in most sections: where one of a layer's is named, so are the others of that model.
        for name in [name for name in names if "_exps." in name]:
            layer = name.split(".")[1]
            names |= {f"blk.{layer}.{role}.weight" for role in {other.split(".")[2] for other in names if "_exps." in other}}
        # The heads' value matrices have the default everywhere.
        names |= {name.replace("attn_k_b", "attn_v_b") for name in names}
        lines = [f"# {model}: which tensor has which type in a file of which type, from tests/snapshots/{model}.schema of llama.cpp (MIT), as in the source",
                 "# distribution of llama-cpp-python 0.3.36. Row lengths from the model's published configuration. Written by conformance/mixtures.py.",
                 f"hyper {architecture} layers={hyper['n_layer']} heads={hyper['n_head']} kv_heads={hyper['n_head_kv']} experts={hyper.get('n_expert', 0)}"]
        for ending, layers in grouped(names):
            length = next((length for part, length in widths.items() if part in ending), width)
            lines.append(f"tensor {ending} {layers} {length}{' stack' if any(part in ending for part in stacks) else ''}")
        for kind, (default, others) in found.items():
            lines.append(f"[{kind}] {default}")
            for made in sorted(set(others.values())):
                for ending, layers in grouped([name for name, other in others.items() if other == made]):
                    lines.append(f"{made} {ending} {layers}")
        (output / f"{model}.txt").write_text("\n".join(lines) + "\n")


main()

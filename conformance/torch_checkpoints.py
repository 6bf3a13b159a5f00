"""Writes small checkpoints in PyTorch files for the tests of ggmill-convert, with hashes of what the reference converter makes of them.

    CLASSES_CACHE=DIR REFERENCE_PYTHON=... LLAMA_CPP=... REFERENCE_PYTHON torch_checkpoints.py

writes crates/ggmill-convert/tests/fixtures/torch: a directory for each checkpoint and expected.json, the SHA-256 of the reference's file for each type. Weights
follow from names as in classes.py, which also says what the variables are. Written with torch 2.11.0.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path

import torch
from classes import ask_reference, weights

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "crates/ggmill-convert/tests/fixtures/torch"
TYPES = ["f32", "f16", "bf16", "q8_0", "auto"]

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2,
    "num_key_value_heads": 1, "num_hidden_layers": 1, "vocab_size": 24, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
}
SHAPES = {
    "lm_head.weight": (24, 32),
    "model.embed_tokens.weight": (24, 32),
    "model.layers.0.input_layernorm.weight": (32,),
    "model.layers.0.mlp.down_proj.weight": (32, 64),
    "model.layers.0.mlp.gate_proj.weight": (64, 32),
    "model.layers.0.mlp.up_proj.weight": (64, 32),
    "model.layers.0.post_attention_layernorm.weight": (32,),
    "model.layers.0.self_attn.k_proj.weight": (16, 32),
    "model.layers.0.self_attn.o_proj.weight": (32, 32),
    "model.layers.0.self_attn.q_proj.weight": (32, 32),
    "model.layers.0.self_attn.rotary_emb.inv_freq": (8,),
    "model.layers.0.self_attn.v_proj.weight": (16, 32),
    "model.norm.weight": (32,),
}


def tensor(name):
    """The weights of this name."""
    kind, dtype = ("F32", torch.float32) if len(SHAPES[name]) == 1 else ("BF16", torch.bfloat16)
    return torch.frombuffer(bytearray(weights(name, kind, SHAPES[name])), dtype=dtype).reshape(SHAPES[name])


def viewed(state):
    """The same weights in a few storages: tied, side by side, transposed."""
    state = dict(state)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    names = [f"model.layers.0.self_attn.{name}_proj.weight" for name in "qkv"]
    fused = torch.cat([state[name] for name in names])
    for name, part in zip(names, fused.split([32, 16, 16])):
        state[name] = part
    for name in ("model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.gate_proj.weight"):
        state[name] = state[name].t().contiguous().t()
    return state


def main():
    # In this order for the comparison with safetensors, whose tensors are read in the order of their names.
    plain = {name: tensor(name) for name in sorted(SHAPES)}
    backwards = dict(reversed(plain.items()))
    shards = [{name: plain[name] for number, name in enumerate(backwards) if number % 2 == part} for part in (0, 1)]
    files = [f"pytorch_model-{part}-of-00002.bin" for part in ("00001", "00002")]
    shutil.rmtree(OUT, ignore_errors=True)
    expected = {}
    for name in ("plain", "backwards", "views", "shards", "index"):
        directory = OUT / name
        directory.mkdir(parents=True)
        (directory / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
        whole = {"plain": plain, "backwards": backwards, "views": viewed(plain)}.get(name)
        if whole:
            torch.save(whole, directory / "pytorch_model.bin")
        else:
            for file, state in zip(files, shards):
                torch.save(state, directory / file)
        if name == "index":
            weight_map = {tensor: file for file, state in zip(files, shards) for tensor in state}
            (directory / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}, indent=2) + "\n")
        expected[name] = {}
        for kind in TYPES:
            out = Path(os.environ["CLASSES_CACHE"]) / f"torch.{name}.{kind}.gguf"
            log = out.with_suffix(".log")
            ask_reference({"directory": str(directory), "out": str(out), "type": kind, "vocabulary": "none", "mmproj": False, "log": str(log)})
            if out.exists():
                expected[name][kind] = hashlib.sha256(out.read_bytes()).hexdigest()
                out.unlink()
            else:
                print(name, kind, "the reference fails:", log.read_text().strip().splitlines()[-1])
    # The same in the old form, which the reference does not read: it maps its files into memory, which PyTorch does not do with this one.
    torch.save(plain, OUT / "plain/legacy.bin", _use_new_zipfile_serialization=False)
    (OUT / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


main()

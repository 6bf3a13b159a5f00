"""Writes small checkpoints in the layouts of those who train models, for the tests of ggmill-convert: Mistral's (params.json, consolidated*.safetensors) with hashes
of what the reference converter makes of them (--mistral-format), and Meta's (params.json, consolidated.NN.pth) with hashes of the tensors that the reference's
examples/convert_legacy_llama.py makes of them.

    CLASSES_CACHE=DIR REFERENCE_PYTHON=... LLAMA_CPP=... REFERENCE_PYTHON own_layouts.py

writes crates/ggmill-convert/tests/fixtures/own-layouts: a directory for each checkpoint and expected.json. Weights follow from names as in classes.py, which also
says what the variables are. Written with torch 2.11.0 and mistral-common 1.13.1.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from classes import REPOSITORY, Gguf, ask_reference, safetensors, weights

HERE = Path(__file__).resolve().parent
TESTS = REPOSITORY / "crates/ggmill-convert/tests"
OUT = TESTS / "fixtures/own-layouts"
TYPES = ["f32", "f16", "bf16", "q8_0", "auto"]

MISTRAL = {
    "dim": 32, "n_layers": 1, "head_dim": 16, "hidden_dim": 64, "n_heads": 2, "n_kv_heads": 1, "norm_eps": 1e-5, "vocab_size": 24,
    "max_position_embeddings": 4096, "rope_theta": 1000000.0,
}
META = {"dim": 32, "multiple_of": 32, "n_heads": 4, "n_layers": 1, "norm_eps": 1e-05, "vocab_size": -1}


def shapes(vocabulary, kv):
    """The tensors of a model of one block."""
    return {
        "tok_embeddings.weight": [vocabulary, 32],
        "norm.weight": [32],
        "output.weight": [vocabulary, 32],
        "layers.0.attention.wq.weight": [32, 32],
        "layers.0.attention.wk.weight": [kv, 32],
        "layers.0.attention.wv.weight": [kv, 32],
        "layers.0.attention.wo.weight": [32, 32],
        "layers.0.feed_forward.w1.weight": [64, 32],
        "layers.0.feed_forward.w2.weight": [32, 64],
        "layers.0.feed_forward.w3.weight": [64, 32],
        "layers.0.attention_norm.weight": [32],
        "layers.0.ffn_norm.weight": [32],
    }


def latent(params):
    """The tensors of a model with latent attention and experts."""
    dim, heads, vocabulary = params["dim"], params["n_heads"], params["vocab_size"]
    q_rank, kv_rank, turned, plain, value = (params[name] for name in ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"))
    found = {"tok_embeddings.weight": [vocabulary, dim], "norm.weight": [dim], "output.weight": [vocabulary, dim], "vision_encoder.ln_pre.weight": [16]}

    def feed_forward(name, width):
        return {f"{name}.w1.weight": [width, dim], f"{name}.w2.weight": [dim, width], f"{name}.w3.weight": [width, dim]}

    for layer in range(params["n_layers"]):
        attention = {
            "wq_a.weight": [q_rank, dim], "q_a_norm.weight": [q_rank], "wq_b.weight": [heads * (plain + turned), q_rank],
            "wkv_a_with_mqa.weight": [kv_rank + turned, dim], "kv_a_norm.weight": [kv_rank], "wkv_b.weight": [heads * (plain + value), kv_rank],
            "wo.weight": [dim, heads * value],
        }
        found |= {f"layers.{layer}.attention.{name}": shape for name, shape in attention.items()}
        found |= {f"layers.{layer}.attention_norm.weight": [dim], f"layers.{layer}.ffn_norm.weight": [dim]}
        moe = params["moe"]
        if layer < moe["first_k_dense_replace"]:
            found |= feed_forward(f"layers.{layer}.feed_forward", params["hidden_dim"])
            continue
        found[f"layers.{layer}.gate.weight"] = [moe["num_experts"], dim]
        found |= feed_forward(f"layers.{layer}.shared_experts", moe["expert_hidden_dim"] * moe["num_shared_experts"])
        for expert in range(moe["num_experts"]):
            found |= feed_forward(f"layers.{layer}.experts.{expert}", moe["expert_hidden_dim"])
    return found


def mistral():
    """Directories with the files that each has."""
    plain = {name: ["BF16", shape] for name, shape in shapes(24, 16).items()}
    yield "mistral", {"params.json": MISTRAL, "consolidated.safetensors": plain}

    params = {name: value for name, value in MISTRAL.items() if name != "rope_theta"}
    params["yarn"] = {"factor": 16.0, "beta": 32.0, "alpha": 1.0, "apply_scale": False, "original_max_position_embeddings": 256}
    params["vision_encoder"] = {"hidden_size": 16}
    names = sorted(plain)
    first, second = ({name: plain[name] for name in names[part::2]} for part in (0, 1))
    second["vision_encoder.ln_pre.weight"] = ["BF16", [16]]
    second["vision_language_adapter.w_in.weight"] = ["BF16", [16, 16]]
    yield "mistral-yarn", {"params.json": params, "consolidated-00001-of-00002.safetensors": first, "consolidated-00002-of-00002.safetensors": second}

    tied = {name: tensor for name, tensor in plain.items() if name != "output.weight"}
    scaled = {"factor": 16.0, "beta": 32.0, "alpha": 1.0, "apply_scale": True, "original_max_position_embeddings": 256}
    params = {**MISTRAL, "tied_embeddings": True, "yarn": scaled, "llama_4_scaling": {"original_max_position_embeddings": 256, "beta": 0.1}}
    yield "ministral", {"params.json": params, "consolidated.safetensors": tied}

    packed = dict(plain)
    for name in [name for name in plain if ".attention." in name or ".feed_forward." in name]:
        packed[name] = ["F8_E4M3", plain[name][1]]
        base = name.removesuffix(".weight")
        packed[f"{base}.qscale_weight"] = ["F32", []]
        packed[f"{base}.qscale_act"] = ["F32", []]
    yield "mistral-fp8", {"params.json": {**MISTRAL, "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}}, "consolidated.safetensors": packed}

    tower = {
        "image_size": 28, "patch_size": 14, "num_channels": 3, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "rope_theta": 10000.0, "image_token_id": 10, "image_break_token_id": 12, "image_end_token_id": 13, "adapter_bias": True,
        "mm_projector_id": "patch_merge", "spatial_merge_size": 2, "add_pre_mm_projector_layer_norm": True,
    }
    seeing = dict(plain)
    for layer in range(tower["num_hidden_layers"]):
        for name, shape in shapes(24, 32).items():
            if name.startswith("layers.0."):
                seeing[f"vision_encoder.transformer.{name.replace('layers.0.', f'layers.{layer}.')}"] = ["BF16", shape]
    for name, shape in {
        "vision_encoder.patch_conv.weight": [32, 3, 14, 14], "vision_encoder.ln_pre.weight": [32], "pre_mm_projector_norm.weight": [32],
        "patch_merger.merging_layer.weight": [32, 128], "vision_language_adapter.w_in.weight": [32, 32], "vision_language_adapter.w_in.bias": [32],
        "vision_language_adapter.w_out.weight": [32, 32], "vision_language_adapter.w_out.bias": [32],
    }.items():
        seeing[name] = ["BF16", shape]
    yield "mistral-vision", {"params.json": {**MISTRAL, "vision_encoder": tower}, "consolidated.safetensors": seeing}

    # Latent attention and experts: the reference looks at config.json too, and needs no word of it.
    params = {
        "dim": 64, "n_layers": 3, "head_dim": 48, "hidden_dim": 96, "n_heads": 2, "n_kv_heads": 2, "norm_eps": 1e-6, "vocab_size": 24, "rope_theta": 10000.0,
        "max_position_embeddings": 4096, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32, "tied_embeddings": False,
        "yarn": {"factor": 36.0, "beta": 32.0, "alpha": 1.0, "apply_scale": False, "original_max_position_embeddings": 256},
        "llama_4_scaling": {"original_max_position_embeddings": 256, "beta": 0.1},
        "moe": {
            "expert_parallel": 1, "expert_model_parallel": 1, "route_every_n": 1, "first_k_dense_replace": 1, "num_experts": 4, "num_experts_per_tok": 2,
            "num_expert_groups": 1, "num_expert_groups_per_tok": 1, "routed_scale": 1.0, "expert_hidden_dim": 32, "num_shared_experts": 1,
        },
        "vision_encoder": {"hidden_size": 16},
    }
    experts = {name: ["BF16", shape] for name, shape in latent(params).items()}
    yield "mistral-experts", {"params.json": params, "config.json": {"architectures": ["MistralLarge3ForCausalLM"]}, "consolidated.safetensors": experts}

    tokens = {name: ["BF16", shape] for name, shape in shapes(300, 16).items()}
    tekken = json.loads((TESTS / "vocabularies/tekken-v7.json").read_text())["files"]["tekken.json"]
    yield "mistral-tekken", {"params.json": {**MISTRAL, "vocab_size": 300}, "consolidated.safetensors": tokens, "tekken.json": tekken}


def split(tensors, count, by_columns):
    """The shares of so many files."""
    def share(name, tensor, number):
        if tensor.dim() == 1:
            return tensor
        columns = name.endswith(("attention.wo.weight", "feed_forward.w2.weight")) or by_columns and name.startswith("tok_embeddings.")
        return tensor.chunk(count, 1 if columns else 0)[number].clone()
    return [{name: share(name, tensor, number) for name, tensor in tensors.items()} for number in range(count)]


def meta():
    """Directories with the parameters and the shares of each."""
    tensors = {}
    for name, shape in shapes(24, 32).items():
        tensors[name] = torch.frombuffer(bytearray(weights(name, "F16", shape)), dtype=torch.float16).reshape(shape)
    tensors["rope.freqs"] = torch.zeros(4, dtype=torch.bfloat16)
    tensors["layers.0.attention.inner_attention.rope.freqs"] = torch.zeros(4, dtype=torch.float16)
    yield "meta", META, split(tensors, 1, True)
    yield "meta-2", META, split(tensors, 2, True)
    yield "meta-4-rows", {**META, "n_kv_heads": 4, "rope_theta": 500000.0, "vocab_size": 24}, split(tensors, 4, False)


def main():
    # meta_llama3.py adds to it.
    cache, expected = Path(os.environ["CLASSES_CACHE"]), json.loads((OUT / "expected.json").read_text())
    expected.pop("meta")
    for name, files in mistral():
        directory = OUT / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for file, content in files.items():
            if file.endswith(".safetensors"):
                (directory / file).write_bytes(safetensors(content))
            else:
                (directory / file).write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n")
        vocabulary = "tokens" if "tekken.json" in files else "none"
        # The projector of a checkpoint that has a tower, and its language model.
        for mmproj in [False, True][:1 + name.endswith("-vision")]:
            title = name + " --mmproj" * mmproj
            expected[title] = {}
            for kind in TYPES:
                out, log = cache / f"own.{title}.{kind}.gguf", cache / f"own.{title}.{kind}.log"
                ask_reference({"directory": str(directory), "out": str(out), "type": kind, "vocabulary": vocabulary, "mmproj": mmproj, "log": str(log)})
                if not out.exists():
                    sys.exit(log.read_text())
                expected[title][kind] = hashlib.sha256(out.read_bytes()).hexdigest()
    for name, params, shares in meta():
        directory = OUT / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        (directory / "params.json").write_text(json.dumps(params) + "\n")
        for number, share in enumerate(shares):
            torch.save(share, directory / f"consolidated.{number:02}.pth")
        if name != "meta-4-rows":
            out = cache / f"own.{name}.gguf"
            script = Path(os.environ["LLAMA_CPP"]) / "examples/convert_legacy_llama.py"
            subprocess.run([os.environ["REFERENCE_PYTHON"], script, directory, "--outtype", "f16", "--no-vocab", "--outfile", out], check=True, capture_output=True)
            file = Gguf(out)
            hashes = {tensor: hashlib.sha256(data).hexdigest() for tensor, (_, _, data) in file.tensors.items()}
            assert expected.setdefault("meta", hashes) == hashes
            print({key: value for key, (_, value) in file.keys.items() if key.startswith("llama.")})
    (OUT / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


main()

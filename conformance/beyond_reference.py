"""Compares the conversion of checkpoints that the reference converter does not know with a decoding of its own.

    python beyond_reference.py GGMILL CHECKPOINTS

CHECKPOINTS has the directories GPTJForCausalLM, RwkvForCausalLM and WhisperForConditionalGeneration, as `classes.py materialize` makes them from the recipes under
crates/ggmill-convert/tests/fixtures/classes.json. The specification has the keys of these architectures; the names of tensors are, for GPT-J, those gguf knows, for RWKV 4
those of its later versions, for Whisper those of the original release. The tables here go from the checkpoint's names to the file's, written apart from the
descriptions (Whisper's from the other side, as its release is renamed). Every value of every tensor, in F32, F16, BF16 and Q8_0, and every key is compared.
Needs numpy, torch, safetensors and gguf.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors import safe_open

GPTJ = {
    "wte": "token_embd", "ln_f": "output_norm", "lm_head": "output", "ln_1": "attn_norm", "attn.q_proj": "attn_q", "attn.k_proj": "attn_k",
    "attn.v_proj": "attn_v", "attn.out_proj": "attn_output", "mlp.fc_in": "ffn_up", "mlp.fc_out": "ffn_down",
}
RWKV = {
    "embeddings": "token_embd", "pre_ln": "token_embd_norm", "ln_out": "output_norm", "head": "output", "ln1": "attn_norm", "ln2": "attn_norm_2",
    "attention.time_decay": "time_mix_decay", "attention.time_first": "time_mix_first", "attention.time_mix_key": "time_mix_lerp_k",
    "attention.time_mix_value": "time_mix_lerp_v", "attention.time_mix_receptance": "time_mix_lerp_r", "attention.key": "time_mix_key",
    "attention.value": "time_mix_value", "attention.receptance": "time_mix_receptance", "attention.output": "time_mix_output",
    "feed_forward.time_mix_key": "channel_mix_lerp_k", "feed_forward.time_mix_receptance": "channel_mix_lerp_r", "feed_forward.key": "channel_mix_key",
    "feed_forward.value": "channel_mix_value", "feed_forward.receptance": "channel_mix_receptance",
}
# From the original release to the names of transformers, replaced in this order.
WHISPER = {
    "blocks": "layers", "mlp.0": "fc1", "mlp.2": "fc2", "mlp_ln": "final_layer_norm", ".attn.query": ".self_attn.q_proj", ".attn.key": ".self_attn.k_proj",
    ".attn.value": ".self_attn.v_proj", ".attn_ln": ".self_attn_layer_norm", ".attn.out": ".self_attn.out_proj", ".cross_attn.query": ".encoder_attn.q_proj",
    ".cross_attn.key": ".encoder_attn.k_proj", ".cross_attn.value": ".encoder_attn.v_proj", ".cross_attn_ln": ".encoder_attn_layer_norm",
    ".cross_attn.out": ".encoder_attn.out_proj", "decoder.ln.": "decoder.layer_norm.", "token_embedding": "embed_tokens",
    "positional_embedding": "embed_positions.weight", "ln_post": "layer_norm",
}


def by_table(table, sources):
    """The tensors of a file: the block's number, the part by the table, and the end of the name."""
    found = {}
    for name, value in sources.items():
        block, part, end = re.fullmatch(r"(?:transformer\.|rwkv\.)?(?:(?:h|blocks)\.(\d+)\.)?(.+?)(?:\.(weight|bias))?", name).groups()
        place = "" if block is None or part == "pre_ln" else f"blk.{block}."
        found[f"{place}{table[part]}.{end or 'weight'}"] = value
    return found


def whisper(sources, config):
    """The tensors of a file, by the names of the original release."""
    parts = ["attn_ln", "attn.query", "attn.key", "attn.value", "attn.out", "mlp_ln", "mlp.0", "mlp.2"]
    cross = ["cross_attn_ln", "cross_attn.query", "cross_attn.key", "cross_attn.value", "cross_attn.out"]
    names = ["encoder.positional_embedding", "decoder.positional_embedding", "decoder.token_embedding.weight"]
    names += [f"{part}.{end}" for part in ["encoder.conv1", "encoder.conv2", "encoder.ln_post", "decoder.ln"] for end in ["weight", "bias"]]
    for side, more in [("encoder", []), ("decoder", cross)]:
        for block in range(config[f"{side}_layers"]):
            # Keys have no bias.
            names += [f"{side}.blocks.{block}.{part}.{end}" for part in parts + more for end in ["weight", "bias"] if (part[-3:], end) != ("key", "bias")]
    found = {}
    for name in names:
        renamed = name
        for old, new in WHISPER.items():
            renamed = renamed.replace(old, new)
        found[name] = sources.pop(f"model.{renamed}")
    for conv in ["encoder.conv1.bias", "encoder.conv2.bias"]:
        found[conv] = found[conv].reshape(-1, 1)
    assert set(sources) <= {"proj_out.weight"}, sorted(sources)
    return found


def stored(values, kind):
    """What is left of F32 values in a type."""
    if kind == gguf.GGMLQuantizationType.F16:
        return values.astype(np.float16).astype(np.float32)
    if kind == gguf.GGMLQuantizationType.BF16:
        return torch.from_numpy(values).bfloat16().float().numpy()
    if kind == gguf.GGMLQuantizationType.Q8_0:
        return gguf.dequantize(gguf.quantize(values, kind), kind).reshape(values.shape)
    return values


def keys(config):
    """What the specification wants in the file, from config.json."""
    if config["model_type"] == "gptj":
        return {
            "gptj.context_length": config["n_positions"], "gptj.embedding_length": config["n_embd"], "gptj.block_count": config["n_layer"],
            "gptj.rope.dimension_count": config["rotary_dim"], "gptj.attention.head_count": config["n_head"],
            "gptj.attention.layer_norm_epsilon": config["layer_norm_epsilon"], "gptj.feed_forward_length": config["n_inner"] or 4 * config["n_embd"],
        }
    if config["model_type"] == "rwkv":
        return {
            "rwkv.architecture_version": 4, "rwkv.context_length": config["context_length"], "rwkv.block_count": config["num_hidden_layers"],
            "rwkv.embedding_length": config["hidden_size"], "rwkv.feed_forward_length": config["intermediate_size"],
        }
    sides = {
        f"whisper.{side}.{key}": config[place]
        for side, context in [("encoder", "max_source_positions"), ("decoder", "max_target_positions")]
        for key, place in [("context_length", context), ("embedding_length", "d_model"), ("block_count", f"{side}_layers"),
                           ("attention.head_count", f"{side}_attention_heads")]
    }
    return sides | {"whisper.encoder.mels_count": config["num_mel_bins"]}


def compare(ggmill, directory):
    config = json.loads((directory / "config.json").read_text())
    with safe_open(directory / "model.safetensors", "pt") as file:
        sources = {name: file.get_tensor(name).float().numpy() for name in file.keys()}
    table = {"gptj": GPTJ, "rwkv": RWKV}.get(config["model_type"])
    wanted = by_table(table, sources) if table else whisper(sources, config)
    for kind in ["f32", "f16", "bf16", "q8_0"]:
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary) / "out.gguf"
            subprocess.run([ggmill, "convert", directory, "-o", out, "--type", kind], check=True, capture_output=True)
            file = gguf.GGUFReader(out)
            tensors = {tensor.name: tensor for tensor in file.tensors}
            assert set(tensors) == set(wanted), sorted(set(tensors) ^ set(wanted))
            for name, tensor in tensors.items():
                values = wanted[name]
                assert [int(length) for length in tensor.shape] == list(reversed(values.shape)), name
                got = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(values.shape)
                assert np.array_equal(got, stored(values, tensor.tensor_type)), name
            for key, value in keys(config).items():
                assert np.float32(file.fields[key].contents()) == np.float32(value), key
        print(f"{directory.name}, {kind}: {len(tensors)} tensors and {len(keys(config))} keys are as they should be")


for name in ["GPTJForCausalLM", "RwkvForCausalLM", "WhisperForConditionalGeneration"]:
    compare(sys.argv[1], Path(sys.argv[2]) / name)

"""What the libraries that made quantized checkpoints decode them to: for recipes of which the reference converter makes no file.

    python classes_decoded.py NAME...

records in each recipe, as `decoded`, the SHA-256 of the data of every tensor that is packed, in the type in which the library has it: `f16` for AWQ, `f32` for
the others. Needs torch, bitsandbytes 0.50, compressed-tensors 0.20 and awq/utils/packing_utils.py of autoawq 0.2.7 in the path.
"""

import hashlib
import json
import sys

import numpy as np
import torch

from classes import WIDTHS, read_recipe, weights, write_recipe

NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def tensor(recipe, name):
    """A tensor of a recipe."""
    dtype, shape = recipe["tensors"][name][:2]
    data = np.frombuffer(weights(name, *recipe["tensors"][name]), WIDTHS[dtype]).reshape(shape).copy()
    return torch.from_numpy(data)


def awq(recipe, base, config):
    """A matrix of AutoAWQ."""
    from awq.utils.packing_utils import dequantize_gemm
    parts = [tensor(recipe, f"{base}.{part}") for part in ("qweight", "qzeros", "scales")]
    return dequantize_gemm(*parts, 4, config["group_size"]).T.contiguous()


def four_bits(recipe, base, config):
    """A matrix of bitsandbytes' four-bit types, whose rows are whole blocks: with others, version 0.50 for processors has wrong scales."""
    from bitsandbytes.functional import QuantState, dequantize_4bit
    start = base + ".weight."
    state = {name.removeprefix(start): tensor(recipe, name) for name in recipe["tensors"] if name.startswith(start)}
    return dequantize_4bit(tensor(recipe, base + ".weight"), QuantState.from_dict(state, device=torch.device("cpu")))


def eight_bits(recipe, base, config):
    """A matrix of LLM.int8()."""
    from bitsandbytes.functional import int8_vectorwise_dequant
    return int8_vectorwise_dequant(tensor(recipe, base + ".weight"), tensor(recipe, base + ".SCB"))


def packed(recipe, base, config):
    """A matrix of compressed-tensors."""
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
    bits = config["config_groups"]["group_0"]["weights"]["num_bits"]
    rows, columns = tensor(recipe, base + ".weight_shape").tolist()
    scale = tensor(recipe, base + ".weight_scale")
    levels = unpack_from_int32(tensor(recipe, base + ".weight_packed"), bits, torch.Size([rows, columns]))
    zeros = unpack_from_int32(tensor(recipe, base + ".weight_zero_point"), bits, torch.Size([rows, scale.shape[1]]), packed_dim=0)
    group = tensor(recipe, base + ".weight_g_idx")
    return (levels - zeros[:, group]) * scale[:, group]


ENDINGS = {".qweight": (awq, "f16"), ".weight.quant_map": (four_bits, "f32"), ".SCB": (eight_bits, "f32"), ".weight_packed": (packed, "f32")}

for recipe_name in sys.argv[1:]:
    recipe = read_recipe(recipe_name)
    config = recipe["config"]["quantization_config"]
    decoded = {}
    for name in recipe["tensors"]:
        for ending, (decode, kind) in ENDINGS.items():
            if not name.endswith(ending):
                continue
            base = name.removesuffix(ending)
            _, _, block, part = base.split(".", 3)
            values = decode(recipe, base, config)
            assert values.dtype == {"f16": torch.float16, "f32": torch.float32}[kind], values.dtype
            digest = hashlib.sha256(values.numpy().tobytes()).hexdigest()
            decoded.setdefault(kind, {})[f"blk.{block}.{NAMES[part]}.weight"] = digest
    recipe["decoded"] = decoded
    write_recipe(recipe_name, recipe)
    print(f"{recipe_name}: {sum(map(len, decoded.values()))} tensors")

"""Recipes of quantized checkpoints, made of those of plain ones: matrices named `..._proj*.weight` become packed tensors (see classes.py quantize)."""

import json


def stretched(recipe):
    """The recipe with rows of 128 and 192 where it has 96 and 160: multiples of 64."""
    other = {96: 128, 160: 192}
    for key in ("hidden_size", "intermediate_size"):
        recipe["config"][key] = other.get(recipe["config"][key], recipe["config"][key])
    for tensor in recipe["tensors"].values():
        tensor[1] = [other.get(extent, extent) for extent in tensor[1]]
    return recipe


def gptq(bits, group, checkpoint_format=None, ordered=True):
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        groups = columns // group
        numbers = list(range(columns)) if ordered else [column * 7 % columns for column in range(columns)]
        return {
            base + ".qweight": ["I32", [columns * bits // 32, rows], "bits"],
            base + ".qzeros": ["I32", [groups, rows * bits // 32], "bits"],
            base + ".scales": ["F16", [groups, rows]],
            base + ".g_idx": ["I32", [columns], [number // group for number in numbers]],
        }
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": not ordered, "sym": False}
    return pack, config | ({"checkpoint_format": checkpoint_format} if checkpoint_format else {})


def awq(group):
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        return {
            base + ".qweight": ["I32", [columns, rows // 8], "bits"],
            base + ".qzeros": ["I32", [columns // group, rows // 8], "bits"],
            base + ".scales": ["F16", [columns // group, rows]],
        }
    return pack, {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}


def compressed(form, weights, **more):
    """The configuration of compressed-tensors."""
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}, "ignore": ["lm_head"]} | more


def pack_quantized(bits, group, zeros):
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        tensors = {
            base + ".weight_packed": ["I32", [rows, -(-columns * bits // 32)], "bits"],
            base + ".weight_scale": ["BF16", [rows, columns // group]],
            base + ".weight_shape": ["I64", [2], [rows, columns]],
        }
        if zeros:
            tensors[base + ".weight_zero_point"] = ["I32", [-(-rows * bits // 32), columns // group], "bits"]
        return tensors
    return pack, compressed("pack-quantized", {"num_bits": bits, "type": "int", "strategy": "group", "group_size": group, "symmetric": not zeros})


def scaled(form, dtype, strategy, block=None):
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        shape = [-(-rows // block[0]), -(-columns // block[1])] if block else [rows, 1]
        return {base + ".weight": [dtype, [rows, columns]], base + ".weight_scale": ["BF16" if dtype == "I8" else "F32", shape]}
    weights = {"num_bits": 8, "type": "int" if dtype == "I8" else "float", "strategy": strategy, "group_size": None}
    return pack, compressed(form, weights | ({"block_structure": block} if block else {}))


def optimizer_fp8():
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        tensors = {
            base + ".weight": ["F8_E4M3", [rows, columns]],
            base + ".weight_scale": ["F32", [rows] if "mlp" in base else [], [0.25, 0.5, 3, 0.0625]],
            base + ".input_scale": ["F32", [], [0.5]],
        }
        if base.endswith("k_proj"):
            tensors[base + ".k_scale"] = ["F32", [], [1]]
        return tensors
    return pack, {"quant_method": "modelopt", "quant_algo": "FP8"}


def optimizer_nvfp4(algorithm="NVFP4"):
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        trivial = base.endswith("up_proj")
        return {
            base + ".weight": ["U8", [rows, columns // 2]],
            base + ".weight_scale": ["F8_E4M3", [rows, columns // 16]],
            base + ".weight_scale_2": ["F32", [], [1.0 if trivial else 0.0125 + len(base) / 1024]],
            base + ".input_scale": ["F32", [], [1.0 if base.endswith("gate_proj") else 0.75 + len(base) / 512]],
        }
    return pack, {"quant_method": "modelopt", "quant_algo": algorithm}


def compressed_nvfp4():
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        return {
            base + ".weight_packed": ["U8", [rows, columns // 2]],
            base + ".weight_scale": ["F8_E4M3", [rows, columns // 16]],
            base + ".weight_global_scale": ["F32", [1], [300 + len(base)]],
            base + ".input_global_scale": ["F32", [1], [1 if base.endswith("down_proj") else 17]],
        }
    return pack, compressed("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16})


def bitnet():
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        return {base + ".weight": ["U8", [rows // 4, columns]], base + ".weight_scale": ["BF16", [1], [1.5]]}
    return pack, {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}


# The numbers of bitsandbytes' four-bit types (QLoRA, appendix E; its kernels for FP4).
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]


def bitsandbytes4(kind, nested):
    """Tensors of a matrix."""
    from bitsandbytes import functional
    table = NF4 if kind == "nf4" else functional.get_4bit_type("fp4", "cpu").tolist()

    def pack(base, rows, columns):
        blocks = -(-rows * columns // 64)
        state = {"quant_type": kind, "blocksize": 64, "dtype": "float32", "shape": [rows, columns]}
        tensors = {base + ".weight": ["U8", [rows * columns // 2, 1]], base + ".weight.quant_map": ["F32", [16], table]}
        if nested:
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.04432}
            tensors[base + ".weight.absmax"] = ["U8", [blocks]]
            tensors[base + ".weight.nested_absmax"] = ["F32", [-(-blocks // 256)], [0.0625 + len(base) / 999]]
            tensors[base + ".weight.nested_quant_map"] = ["F32", [256], functional.create_dynamic_map().tolist()]
        else:
            tensors[base + ".weight.absmax"] = ["F32", [blocks]]
        text = json.dumps(state).encode()
        tensors[base + f".weight.quant_state.bitsandbytes__{kind}"] = ["U8", [len(text)], list(text)]
        return tensors
    return pack, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}


def bitsandbytes8():
    """Tensors of a matrix."""
    def pack(base, rows, columns):
        return {base + ".weight": ["I8", [rows, columns]], base + ".SCB": ["F32", [rows]], base + ".weight_format": ["U8", [], [0]]}
    return pack, {"quant_method": "bitsandbytes", "load_in_8bit": True}


def pack_ordered():
    """Tensors of a matrix whose columns are in groups by their activations."""
    def pack(base, rows, columns):
        tensors = pack_quantized(4, 32, True)[0](base, rows, columns)
        tensors[base + ".weight_scale"][0] = "F32"
        tensors[base + ".weight_g_idx"] = ["I32", [columns], [column * 7 % columns // 32 for column in range(columns)]]
        return tensors
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False, "actorder": "group"}
    return pack, compressed("pack-quantized", weights)


METHODS = {
    "gptq4": lambda: gptq(4, 32),
    "gptq4-order": lambda: gptq(4, 32, ordered=False),
    "gptq2": lambda: gptq(2, 16, "gptq_v2"),
    "gptq8": lambda: gptq(8, 32, "gptq", ordered=False),
    "awq": lambda: awq(32),
    "pack4": lambda: pack_quantized(4, 32, False),
    "pack4-zeros": lambda: pack_quantized(4, 16, True),
    "pack8": lambda: pack_quantized(8, 32, True),
    "float": lambda: scaled("float-quantized", "F8_E4M3", "channel"),
    "float-block": lambda: scaled("float-quantized", "F8_E4M3", "block", [64, 32]),
    "int": lambda: scaled("int-quantized", "I8", "channel"),
    "naive": lambda: scaled("naive-quantized", "F8_E4M3", "channel"),
    "optimizer-fp8": optimizer_fp8,
    "nvfp4": optimizer_nvfp4,
    "nvfp4-wide": lambda: optimizer_nvfp4("W4A16_NVFP4"),
    "nvfp4-mixed": optimizer_nvfp4,
    "nvfp4-compressed": compressed_nvfp4,
    "bitnet": bitnet,
    "nf4": lambda: bitsandbytes4("nf4", True),
    "fp4": lambda: bitsandbytes4("fp4", False),
    "int8": bitsandbytes8,
    "pack4-order": pack_ordered,
}


def quantize(recipe, method):
    """The recipe of the checkpoint, quantized."""
    recipe.pop("expected", None)
    if method.startswith("nvfp4"):
        recipe = stretched(recipe)
    pack, config = METHODS[method]()
    tensors = {}
    packed = []
    for name, tensor in recipe["tensors"].items():
        matrix = name.endswith(".weight") and "_proj" in name.split(".")[-2] and len(tensor[1]) == 2
        if method in ("nf4", "fp4") and not name.endswith("0.self_attn.o_proj.weight"):
            matrix = False
        if matrix and method == "nvfp4-mixed" and ".0." in name and "self_attn" in name:
            tensors |= optimizer_fp8()[0](name.removesuffix(".weight"), *tensor[1])
            packed.append((name.removesuffix(".weight"), "FP8"))
        elif matrix:
            tensors |= pack(name.removesuffix(".weight"), *tensor[1])
            packed.append((name.removesuffix(".weight"), "W4A16_NVFP4" if name.endswith("o_proj.weight") else "NVFP4"))
        else:
            tensors[name] = tensor
    if method == "nvfp4-mixed":
        # What older exports of the Model Optimizer have, in a file of its own.
        layers = {base: {"quant_algo": algorithm} for base, algorithm in packed}
        content = {"producer": {"name": "modelopt", "version": "0.29"}, "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}}
        recipe["files"] = recipe.get("files", {}) | {"hf_quant_config.json": content}
    else:
        recipe["config"]["quantization_config"] = config
    recipe["tensors"] = tensors
    return json.loads(json.dumps(recipe))

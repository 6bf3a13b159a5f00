"""Compares the files that `ggmill convert` makes of the bundled checkpoint with two readings that share no code with it.

    python convert.py GGMILL DIRECTORY LLAMA2C

GGMILL is the binary, DIRECTORY the checkpoint as Hugging Face has it (config.json, model.safetensors), LLAMA2C the same model as llama2.c writes it. Each type is converted twice.
Our files are read with gguf.GGUFReader; what should be in them comes from safetensors and numpy, with names, order of rows and rounding worked out here, and once more from
the LLAMA2C file, which has the rows of q and k in the order that GGUF has them. Exit status 1 when anything differs.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.down_proj": "ffn_down", "mlp.up_proj": "ffn_up",
}
FILE_TYPES = {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7}


def in_pairs(rows, heads):
    """The rows of rotary heads, from two halves to pairs: row 2i+k of a head is row i+k·(size/2) of it."""
    size = len(rows) // heads
    order = [head * size + (row % 2) * (size // 2) + row // 2 for head in range(heads) for row in range(size)]
    return rows[order]


def expected_tensors(directory, config):
    """Name in the file: values in f32, from safetensors."""
    found = {}
    for name, values in load_file(directory / "model.safetensors").items():
        stem = name.removeprefix("model.").removesuffix(".weight")
        if stem == "embed_tokens":
            found["token_embd.weight"] = values
        elif stem == "norm":
            found["output_norm.weight"] = values
        elif stem.startswith("layers."):
            _, block, part = stem.split(".", 2)
            if part.endswith("q_proj"):
                values = in_pairs(values, config["num_attention_heads"])
            if part.endswith("k_proj"):
                values = in_pairs(values, config["num_key_value_heads"])
            found[f"blk.{block}.{LAYER[part]}.weight"] = values
        else:
            raise ValueError(f"{name}: not known here")
    return found


def llama2c_tensors(path):
    """The same from the llama2.c file: seven numbers, then one kind of tensor after another, all layers of it together."""
    dim, hidden, layers, heads, kv_heads, vocabulary, length = (int(number) for number in np.fromfile(path, "<i4", 7))
    values = np.fromfile(path, "<f4", offset=28)
    place = 0

    def take(*shape):
        nonlocal place
        size = int(np.prod(shape))
        place += size
        return values[place - size : place].reshape(shape)

    kv = dim // heads * kv_heads
    found = {"token_embd.weight": take(abs(vocabulary), dim)}
    parts = [
        ("attn_norm", (dim,)), ("attn_q", (dim, dim)), ("attn_k", (kv, dim)), ("attn_v", (kv, dim)), ("attn_output", (dim, dim)), ("ffn_norm", (dim,)),
        ("ffn_gate", (hidden, dim)), ("ffn_down", (dim, hidden)), ("ffn_up", (hidden, dim)),
    ]
    for name, shape in parts:
        for block, layer in enumerate(take(layers, *shape)):
            found[f"blk.{block}.{name}.weight"] = layer
    found["output_norm.weight"] = take(dim)
    # The rotary tables, and a matrix of its own for the output where the number of tokens is negative.
    place += length * (dim // heads)
    assert vocabulary > 0 and place == len(values), "not the file this was written for"
    return found


def fields(message):
    """The fields of a protobuf message: number and value, which is a number, four bytes or a part."""
    place = 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            size = {2: varint, 5: lambda: 4, 1: lambda: 8}[tag & 7]()
            place += size
            yield tag >> 3, message[place - size : place]


def expected_vocabulary(directory, config):
    """The same for the keys of the vocabulary, from tokenizer.model and tokenizer_config.json."""
    u32, boolean, array, string = gguf.GGUFValueType.UINT32, gguf.GGUFValueType.BOOL, gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.STRING
    pieces = [dict(fields(piece)) for number, piece in fields((directory / "tokenizer.model").read_bytes()) if number == 1]
    assert len(pieces) == config["vocab_size"], "not the file this was written for"
    known = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
    return {
        "tokenizer.ggml.model": (string, "llama"),
        "tokenizer.ggml.pre": (string, "default"),
        "tokenizer.ggml.tokens": (array, [piece[1].decode("utf-8") for piece in pieces]),
        "tokenizer.ggml.scores": (array, [float(np.frombuffer(piece[2], "<f4")[0]) for piece in pieces]),
        # 1 normal, 2 unknown, 3 control, 6 byte: the numbers of SentencePiece.
        "tokenizer.ggml.token_type": (array, [piece.get(3, 1) for piece in pieces]),
        "tokenizer.ggml.bos_token_id": (u32, config["bos_token_id"]),
        "tokenizer.ggml.eos_token_id": (u32, config["eos_token_id"]),
        "tokenizer.ggml.add_bos_token": (boolean, known["add_bos_token"]),
        "tokenizer.ggml.add_eos_token": (boolean, known["add_eos_token"]),
    }


def expected_metadata(directory, config, file_type):
    """Key: type and value, from config.json."""
    head = config["hidden_size"] // config["num_attention_heads"]
    u32, f32, string = gguf.GGUFValueType.UINT32, gguf.GGUFValueType.FLOAT32, gguf.GGUFValueType.STRING
    return {
        "general.architecture": (string, "llama"),
        "general.type": (string, "model"),
        "general.name": (string, directory.name),
        "general.size_label": (string, "260K"),
        "general.file_type": (u32, FILE_TYPES[file_type]),
        "general.quantization_version": (u32, 2),
        "llama.block_count": (u32, config["num_hidden_layers"]),
        "llama.context_length": (u32, config["max_position_embeddings"]),
        "llama.embedding_length": (u32, config["hidden_size"]),
        "llama.feed_forward_length": (u32, config["intermediate_size"]),
        "llama.attention.head_count": (u32, config["num_attention_heads"]),
        "llama.attention.head_count_kv": (u32, config["num_key_value_heads"]),
        "llama.attention.key_length": (u32, head),
        "llama.attention.value_length": (u32, head),
        "llama.attention.layer_norm_rms_epsilon": (f32, float(np.float32(config["rms_norm_eps"]))),
        "llama.rope.freq_base": (f32, float(np.float32(config["rope_theta"]))),
        "llama.rope.dimension_count": (u32, head),
        "llama.vocab_size": (u32, config["vocab_size"]),
    } | expected_vocabulary(directory, config)


def encoded(values, file_type):
    """The type a tensor of these values has in a file of this type, and its bytes."""
    types = gguf.GGMLQuantizationType
    if values.ndim == 1 or file_type == "f32":
        return types.F32, values.astype("<f4").tobytes()
    if file_type == "bf16":
        # To the nearest, ties to even.
        bits = values.astype("<f4").view("<u4").astype(np.uint64)
        return types.BF16, ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
    # Rows that are not whole blocks stay F16.
    if file_type == "f16" or values.shape[-1] % 32:
        return types.F16, values.astype("<f2").tobytes()
    return types.Q8_0, gguf.quants.quantize(values, types.Q8_0).tobytes()


def compare(path, file_type, tensors, metadata):
    reader = gguf.GGUFReader(path)
    findings = []
    found = {name: (field.types[0], field.contents()) for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    for key in sorted(found.keys() | metadata.keys()):
        if found.get(key) != metadata.get(key):
            findings.append(f"{key}: {found.get(key)}, expected {metadata.get(key)}")
    names = [tensor.name for tensor in reader.tensors]
    if sorted(names) != sorted(tensors):
        findings.append(f"tensors differ: {sorted(set(names) ^ set(tensors))}, of {len(names)}")
    for tensor in reader.tensors:
        values = tensors.get(tensor.name)
        if values is None:
            continue
        kind, data = encoded(values, file_type)
        if tensor.tensor_type != kind or [int(n) for n in tensor.shape] != list(reversed(values.shape)) or tensor.data.tobytes() != data:
            findings.append(f"tensor {tensor.name}: {tensor.tensor_type.name} {tensor.shape.tolist()} differs")
    return findings


def main(ggmill, directory, llama2c):
    directory = Path(directory)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    tensors = expected_tensors(directory, config)
    other = llama2c_tensors(llama2c)
    findings = [f"safetensors and llama2.c differ in {name}" for name in sorted(tensors.keys() | other.keys()) if not np.array_equal(tensors.get(name), other.get(name))]
    print(f"{'DIFFER' if findings else 'agree'}  safetensors and llama2.c: {len(tensors)} tensors")
    with tempfile.TemporaryDirectory() as place:
        for file_type in FILE_TYPES:
            files = [Path(place) / f"{file_type}-{number}.gguf" for number in (1, 2)]
            for file in files:
                subprocess.run([ggmill, "convert", directory, "-o", file, "--type", file_type, "--quiet"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
            new = compare(files[0], file_type, tensors, expected_metadata(directory, config, file_type))
            if file_type == "f32":
                new += [f"llama2.c: {finding}" for finding in compare(files[0], file_type, other, expected_metadata(directory, config, file_type))]
            if files[0].read_bytes() != files[1].read_bytes():
                new.append("converted twice, the bytes differ")
            print(f"{'DIFFERS' if new else 'agrees'}  {file_type}: {files[0].stat().st_size} bytes")
            findings += new
    for finding in findings[:40]:
        print(f"  {finding}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

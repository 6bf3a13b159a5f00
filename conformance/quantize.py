#!/usr/bin/env python3
"""Compare `ggmill quantize` with llama_model_quantize, byte for byte, and in speed and memory.

usage: quantize.py GGMILL DIRECTORY EXPECTED
       quantize.py GGMILL DIRECTORY --speed TYPE [--weights MILLIONS] [--threads N]

DIRECTORY has models NAME.gguf with importance matrices NAME.imatrix.gguf and NAME.imatrix.dat (made by ggmill-testdata). Every type is made of every model by both
sides, with importance and without, and some models with options. What the reference makes is recorded in EXPECTED: model, type, importance, SHA-256, or the word
"refused". Exit status 1 when a byte differs. The reference is libllama of the llama-cpp-python package installed in the Python that runs this.
"""

import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

import gguf
import llama_cpp
import numpy as np

from quant_vectors import Reference

NAMES = {
    "Q1_0": 40, "Q2_0": 41, "Q4_0": 2, "Q4_1": 3, "MXFP4_MOE": 38, "Q5_0": 8, "Q5_1": 9, "IQ2_XXS": 19, "IQ2_XS": 20, "IQ2_S": 28, "IQ2_M": 29, "IQ1_S": 24,
    "IQ1_M": 31, "TQ1_0": 36, "TQ2_0": 37, "Q2_K": 10, "Q2_K_S": 21, "IQ3_XXS": 23, "IQ3_S": 26, "IQ3_M": 27, "IQ3_XS": 22, "Q3_K_S": 11, "Q3_K_M": 12,
    "Q3_K_L": 13, "IQ4_NL": 25, "IQ4_XS": 30, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "Q8_0": 7, "F16": 1, "BF16": 32, "F32": 0,
    "COPY": 0,
}
TYPES = {kind.name.lower(): kind.value for kind in gguf.GGMLQuantizationType}
INT, FLOAT, BOOL, STR = range(4)

# The name of a file of rules, which is put into the directory of the models.
RULES = "rules.txt"

# Options of ours, and what they mean for the reference.
OPTIONS = [
    ("llama", "Q4_K_M", ["--pure"], {"pure": True}),
    ("llama", "Q4_K_M", ["--leave-output-tensor"], {"quantize_output_tensor": False}),
    ("llama", "Q4_K_S", ["--output-tensor-type", "q8_0", "--token-embedding-type", "f16"], {"output_tensor_type": "q8_0", "token_embedding_type": "f16"}),
    ("mixtral", "Q3_K_M", ["--output-tensor-type", "q5_1"], {"output_tensor_type": "q5_1"}),
    ("mixtral", "Q3_K_M", ["--token-embedding-type", "q5_0"], {"token_embedding_type": "q5_0"}),
    ("llama", "Q5_K_M", ["--tensor-type", "ffn_(up|gate)=q4_0", "--tensor-type", r"blk\.[0-2]\.ffn=q8_0", "--tensor-type", "attn_v=f16"],
     {"tensor_types": [("ffn_(up|gate)", "q4_0"), (r"blk\.[0-2]\.ffn", "q8_0"), ("attn_v", "f16")]}),
    ("llama", "Q4_K_M", ["--prune-layers", "0,3,8"], {"prune_layers": [0, 3, 8]}),
    ("llama", "IQ2_M", ["--prune-layers", "2,4", "--imatrix"], {"prune_layers": [2, 4]}),
    ("mixtral", "Q4_K_M", ["--override-kv", "llama.expert_used_count=int:1", "--override-kv", "general.name=str:other", "--override-kv", "x.y=float:0.1",
                           "--override-kv", "x.z=bool:true"],
     {"overrides": [("llama.expert_used_count", INT, 1), ("general.name", STR, b"other"), ("x.y", FLOAT, 0.1), ("x.z", BOOL, True)]}),
    ("llama", "Q4_0", ["--exclude-weights", "attn", "--imatrix"], {"exclude": "attn"}),
    ("llama", "Q4_0", ["--include-weights", "ffn_down", "--imatrix"], {"include": "ffn_down"}),
    ("falcon", "COPY", ["--prune-layers", "1"], {"prune_layers": [1]}),
    ("llama-once", "Q4_K_M", ["--allow-requantize"], {"allow_requantize": True}),
    ("llama-once", "Q8_0", [], {"allow_requantize": False}),
    ("llama", "Q6_K", ["--tensor-type-file", RULES], {"tensor_types": [("attn_k", "q8_0"), ("ffn_down", "q5_1")]}),
]

# Models cut into shards of 30 tensors, quantized shard by shard.
SHARDED = [("llama", "Q4_K_M", False, []), ("llama", "Q3_K_M", False, ["--no-tensor-first-split"]), ("llama", "IQ2_XS", True, []),
           ("mixtral", "Q2_K", True, []), ("mamba", "Q6_K", False, [])]

# Where the reference stops, having no type to fall back to for rows that are no whole blocks; docs/exactness.md lists it.
OURS_ALONE = {("llama", "Q1_0"), ("mamba", "Q1_0")}


def overrides(pairs):
    array = (llama_cpp.llama_model_kv_override * (len(pairs) + 1))()
    for made, (key, tag, value) in zip(array, pairs):
        made.key, made.tag = key.encode(), tag
        setattr(made.value, ["val_i64", "val_f64", "val_bool", "val_str"][tag], value[:127] if tag == STR else value)
    return array


def importance(path, named, include=None, exclude=None):
    """The weights as llama-quantize makes them of a GGUF imatrix, and the metadata it adds."""
    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    weights = {}
    for name in [name.removesuffix(".in_sum2") for name in tensors if name.endswith(".in_sum2")]:
        if (include and include not in name) or (exclude and exclude in name):
            continue
        counts = tensors[name + ".counts"].data.reshape(-1).astype(np.float32)
        sums = tensors[name + ".in_sum2"].data.reshape(len(counts), -1).astype(np.float32)
        weights[name] = np.stack([row / count if count > 0 else np.ones_like(row) for row, count in zip(sums, counts)]).astype(np.float32).reshape(-1)
    pairs = [("quantize.imatrix.file", STR, named.encode()), ("quantize.imatrix.dataset", STR, b"one.txt"),
             ("quantize.imatrix.entries_count", INT, len(weights)), ("quantize.imatrix.chunks_count", INT, 7)]
    return weights, pairs


def reference(source, output, kind, imatrix=None, named="", threads=2, **options):
    """Quantizes with libllama; whether it did."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.only_copy = NAMES[kind], threads, kind == "COPY"
    for flag in ("pure", "quantize_output_tensor", "allow_requantize", "keep_split"):
        if flag in options:
            setattr(params, flag, options[flag])
    for key in ("output_tensor_type", "token_embedding_type"):
        if key in options:
            setattr(params, key, TYPES[options[key]])
    pairs = list(options.get("overrides", []))
    kept = []
    if imatrix:
        weights, more = importance(imatrix, named, options.get("include"), options.get("exclude"))
        pairs += more
        array = (llama_cpp.llama_model_imatrix_data * (len(weights) + 1))()
        for made, (name, values) in zip(array, weights.items()):
            kept.append(values)
            made.name, made.data, made.size = name.encode(), values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), len(values)
        params.imatrix = array
    if pairs:
        params.kv_overrides = overrides(pairs)
    if "prune_layers" in options:
        params.prune_layers = (ctypes.c_int32 * (len(options["prune_layers"]) + 1))(*options["prune_layers"], -1)
    if "tensor_types" in options:
        array = (llama_cpp.llama_model_tensor_override * (len(options["tensor_types"]) + 1))()
        for made, (pattern, name) in zip(array, options["tensor_types"]):
            made.pattern, made.type = pattern.encode(), TYPES[name]
        params.tt_overrides = array
    return llama_cpp.llama_model_quantize(str(source).encode(), str(output).encode(), ctypes.byref(params)) == 0


def ours(ggmill, source, output, kind, *options):
    done = subprocess.run([ggmill, "--quiet", "quantize", source, output, kind, "--force", "--json", *options], capture_output=True, text=True)
    if done.returncode == 2 and output.exists():
        raise SystemExit(f"{output} was left behind")
    return done.returncode == 0, done.stderr.strip()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def difference(a, b):
    """Where two files differ first, in words."""
    a, b = a.read_bytes(), b.read_bytes()
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"differ at byte {at:#x} of {len(a)} and {len(b)}"


def compare_shards(ggmill, directory):
    """Shards in, shards out: whether every one is the reference's, and what the reference made."""
    lines, bad, same = [], 0, 0
    for model, kind, weighted, cut in SHARDED:
        shards = directory / f"{model}-cut{'-empty' if cut else ''}"
        run = [ggmill, "--quiet", "split", directory / f"{model}.gguf", shards, "--max-tensors", "30", "--force", "--json", *cut]
        names = [plan["output"] for plan in json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)["plans"]]
        matrix = directory / f"{model}.imatrix.gguf" if weighted else None
        theirs, mine = directory / "reference-shard", directory / "ggmill-shard"
        for path in [*directory.glob("reference-shard*"), *directory.glob("ggmill-shard*")]:
            path.unlink()
        options = ["--keep-split", *(["--imatrix", str(matrix)] if weighted else [])]
        if not reference(names[0], theirs, kind, matrix, str(matrix), keep_split=True):
            raise SystemExit(f"the reference refused {model} {kind} in shards")
        ok, message = ours(ggmill, names[-1], mine, kind, *options)
        made = sorted(directory.glob("reference-shard*"))
        if not ok or len(made) != len(names) or len(list(directory.glob("ggmill-shard*"))) != len(names):
            bad += 1
            print(f"{model} {kind} in shards: {message or 'another number of shards'}")
            continue
        for path in made:
            other = directory / path.name.replace("reference", "ggmill")
            if path.read_bytes() == other.read_bytes():
                same += 1
            else:
                bad += 1
                print(f"{model} {kind} {path.name}: {difference(path, other)}")
        if weighted:
            reference(names[0], theirs, kind, matrix, "imatrix", keep_split=True)
        form = ("imatrix" if weighted else "none") + ("-empty" if cut else "")
        lines += [f"{model} {kind} {form}-shard-{number} {digest(path)}\n" for number, path in enumerate(made, 1)]
    return lines, bad, same


def compare_nvfp4(ggmill, directory, models):
    """What libllama has no type of file for: whether gguf reads the file, its blocks are libggml-base's, and what that makes of them is what ggmill reads."""
    base, bad, same = Reference(), 0, 0
    for model in models:
        source, output = directory / f"{model}.gguf", directory / "ggmill-nvfp4.gguf"
        ok, message = ours(ggmill, source, output, "NVFP4")
        if not ok:
            raise SystemExit(f"{model} NVFP4: {message}")
        said = subprocess.run([ggmill, "--quiet", "diff", source, output, "--data", "--tensors", "--json"], capture_output=True, text=True)
        read = {tensor["name"]: tensor["data"] for tensor in json.loads(said.stdout)["tensors"] if tensor.get("data")}
        before = {tensor.name: tensor for tensor in gguf.GGUFReader(source).tensors}
        for tensor in gguf.GGUFReader(output).tensors:
            if tensor.tensor_type != gguf.GGMLQuantizationType.NVFP4:
                continue
            plain = gguf.dequantize(before[tensor.name].data, before[tensor.name].tensor_type)
            rows = np.ascontiguousarray(plain.astype(np.float32).reshape(-1, int(tensor.shape[0])))
            blocks = tensor.data.tobytes()
            back = np.frombuffer(base.dequantize("NVFP4", blocks), np.float32)
            rmse = np.sqrt(np.mean((back.astype(np.float64) - rows.reshape(-1)) ** 2))
            right = blocks == base.quantize("NVFP4", rows, None) and abs(rmse - read[tensor.name]["rmse"]) <= 1e-9 * rmse
            same, bad = same + right, bad + (not right)
            if not right:
                print(f"{model} NVFP4 {tensor.name}: not what libggml-base makes of it")
        output.unlink()
    print(f"{same} tensors of NVFP4 are libggml-base's, read by gguf, {bad} differ")
    return same > 0 and bad == 0


def compare(ggmill, directory, expected):
    models = sorted(path.stem for path in directory.glob("*.gguf") if not path.stem.endswith(".imatrix") and "-" not in path.stem)
    theirs, mine = directory / "reference-out.gguf", directory / "ggmill-out.gguf"
    ours(ggmill, directory / "llama.gguf", directory / "llama-once.gguf", "Q8_0")
    (directory / RULES).write_text("attn_k=q8_0\nffn_down=q5_1 attn_k=f16\n")
    lines, bad, same, refused, alone = [], 0, 0, 0, 0
    cases = [(model, kind, [], {}) for model in models for kind in NAMES]
    cases += [(model, kind, ["--imatrix"], {}) for model in models for kind in NAMES]
    cases += OPTIONS
    for model, kind, options, meaning in cases:
        source, form = directory / f"{model}.gguf", "none"
        options = [str(directory / RULES) if option == RULES else option for option in options]
        matrix = directory / f"{model}.imatrix.gguf" if options[-1:] == ["--imatrix"] else None
        if matrix:
            options.append(str(matrix))
            form = "imatrix"
        for path in (theirs, mine):
            path.unlink(missing_ok=True)
        done = reference(source, theirs, kind, matrix, str(matrix), **meaning)
        ok, message = ours(ggmill, source, mine, kind, *options)
        if ok and not done and (model, kind) in OURS_ALONE:
            alone += 1
        elif done != ok:
            bad += 1
            print(f"{model} {kind} {options}: reference {'wrote' if done else 'refused'}, ggmill {'wrote' if ok else 'refused: ' + message}")
        elif done and theirs.read_bytes() != mine.read_bytes():
            bad += 1
            print(f"{model} {kind} {options}: {difference(theirs, mine)}")
        else:
            same, refused = same + done, refused + (not done)
        if not meaning and not (matrix and done and kind == "COPY"):
            if matrix and done:
                # The path is in the metadata; what is recorded says "imatrix".
                reference(source, theirs, kind, matrix, "imatrix", **meaning)
            lines.append(f"{model} {kind} {form} {digest(theirs) if done else 'refused'}\n")
    theirs.unlink(missing_ok=True)
    mine.unlink(missing_ok=True)
    more, bad_shards, same_shards = compare_shards(ggmill, directory)
    lines, bad, same = lines + more, bad + bad_shards, same + same_shards
    expected.write_text("# What llama_model_quantize (llama-cpp-python 0.3.36) makes of the models of ggmill-testdata: model, type, importance, SHA-256.\n"
                        "# Written by `python3 conformance/run.py quantize`.\n" + "".join(lines))
    print(f"{same} files equal byte for byte, {refused} refused by both, {alone} made by ggmill alone, {bad} differ")
    return compare_nvfp4(ggmill, directory, models) and bad == 0


def large(path, millions):
    """A llama of that many million weights in F16, with weights from a generator."""
    writer = gguf.GGUFWriter(path, "llama")
    layers = max(1, round((millions - 131) / 44))
    writer.add_block_count(layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(2048)
    writer.add_feed_forward_length(5632)
    writer.add_head_count(32)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    shapes = {"token_embd.weight": (32000, 2048), "output.weight": (32000, 2048)}
    for layer in range(layers):
        for name, rows, columns in [("attn_q", 2048, 2048), ("attn_k", 256, 2048), ("attn_v", 256, 2048), ("attn_output", 2048, 2048),
                                    ("ffn_gate", 5632, 2048), ("ffn_up", 5632, 2048), ("ffn_down", 2048, 5632)]:
            shapes[f"blk.{layer}.{name}.weight"] = (rows, columns)
    for name, shape in shapes.items():
        writer.add_tensor_info(name, shape, np.dtype(np.float16), shape[0] * shape[1] * 2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    generator = np.random.default_rng(1)
    pool = (generator.standard_normal(1 << 24, dtype=np.float32) * 0.02).astype(np.float16)
    for number, shape in enumerate(shapes.values()):
        count = shape[0] * shape[1]
        start = (number * 99991) % len(pool)
        writer.write_tensor_data(np.take(pool, range(start, start + count), mode="wrap").reshape(shape) if count < 1 << 20 else np.resize(np.roll(pool, -start), shape))
    writer.close()
    return sum(a * b for a, b in shapes.values())


def measured(command):
    """Of a child: wall time and processor time in seconds, the most memory in bytes with the pages of its mapped input, and without (Linux only, else 0)."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    own = 0
    while True:
        done, status, usage = os.wait4(child.pid, os.WNOHANG)
        if done:
            break
        own = max(own, anonymous(child.pid))
        time.sleep(0.02)
    if status:
        raise SystemExit(f"{command}: status {status}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, own


def anonymous(pid):
    """Bytes of memory of a process that no file is behind."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def speed(ggmill, directory, kind, millions, threads):
    source, output = directory / f"large-{millions}.gguf", directory / "speed-out.gguf"
    if not source.exists():
        partial = directory / "large-partial.gguf"
        print(f"{large(partial, millions) / 1e6:.0f} million weights written")
        partial.rename(source)
    rows = []
    commands = {
        "llama_model_quantize": [sys.executable, __file__, str(ggmill), str(directory), "--one", str(source), str(output), kind, "--threads", str(threads)],
        "ggmill quantize": [str(ggmill), "--quiet", "quantize", str(source), str(output), kind, str(threads), "--force", "--json"],
    }
    digests = set()
    for name, command in commands.items():
        output.unlink(missing_ok=True)
        rows.append((name, *measured(command)))
        digests.add(digest(output))
        output.unlink()
    for name, seconds, worked, memory, own in rows:
        print(f"{name:<22} {seconds:7.2f} s, {worked:7.2f} s of processors, {memory / 1e6:6.0f} MB at most, {own / 1e6:6.0f} MB without pages of files")
    (_, theirs, theirs_worked, *_), (_, ours, ours_worked, *_) = rows
    print(f"{theirs / ours:.1f} times as fast, {theirs_worked / ours_worked:.1f} times by processor time; {'the same bytes' if len(digests) == 1 else 'DIFFERENT BYTES'}")
    return len(digests) == 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("ggmill", type=pathlib.Path)
    arguments.add_argument("directory", type=pathlib.Path)
    arguments.add_argument("expected", type=pathlib.Path, nargs="?")
    arguments.add_argument("--speed", metavar="TYPE")
    arguments.add_argument("--weights", type=int, default=1100)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = arguments.parse_args()
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, None)
    if args.one:
        source, output, kind = args.one
        sys.exit(not reference(source, output, kind, threads=args.threads))
    if args.speed:
        sys.exit(not speed(args.ggmill, args.directory, args.speed, args.weights, args.threads))
    sys.exit(not compare(args.ggmill, args.directory, args.expected))


main()

"""Times `ggmill convert` beside the reference converter, on a checkpoint of 1.1 billion random weights.

    python convert_speed.py GGMILL TOKENIZER [--rounds N] [--keep DIRECTORY]

TOKENIZER is a directory with the files of a tokenizer (crates/ggmill-testdata/real/tinystories260K). The environment has LLAMA_CPP, the directory `vendor/llama.cpp` of the
source archive of llama-cpp-python 0.3.36, and REFERENCE_PYTHON, an interpreter with torch and transformers; the interpreter that runs this has llama-cpp-python.
Each round converts to F16 by the reference's script and by ggmill, and makes Q4_K_M by the script and llama_model_quantize and by ggmill in one pass; files are deleted after each,
and the page cache is written back before the clock starts. Printed are medians of wall-clock time and the greatest resident set. The F16 files must be equal byte for byte;
Q4_K_M is compared with what llama_model_quantize makes.
"""

import argparse
import filecmp
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
    "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}


def tensors():
    hidden, inner, keys = CONFIG["hidden_size"], CONFIG["intermediate_size"], 64 * CONFIG["num_key_value_heads"]
    yield "model.embed_tokens.weight", (CONFIG["vocab_size"], hidden)
    for block in range(CONFIG["num_hidden_layers"]):
        name = f"model.layers.{block}."
        yield name + "input_layernorm.weight", (hidden,)
        yield name + "post_attention_layernorm.weight", (hidden,)
        for part, shape in {"q": (hidden, hidden), "k": (keys, hidden), "v": (keys, hidden), "o": (hidden, hidden)}.items():
            yield f"{name}self_attn.{part}_proj.weight", shape
        for part, shape in {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}.items():
            yield f"{name}mlp.{part}_proj.weight", shape
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (CONFIG["vocab_size"], hidden)


def make(directory, tokenizer):
    """Normally distributed weights in BF16, written one tensor after another."""
    for file in tokenizer.iterdir():
        if file.name.startswith("token") or file.name == "special_tokens_map.json":
            shutil.copy(file, directory)
    (directory / "config.json").write_text(json.dumps(CONFIG))
    header, offset = {}, 0
    for name, shape in tensors():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(11)
    with open(directory / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, shape in tensors():
            values = random.standard_normal(int(np.prod(shape)), np.float32) * np.float32(0.02)
            out.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())


def timed(*command):
    """Seconds, and the greatest resident set in MB."""
    os.sync()
    begin = time.monotonic()
    done = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    error = done.stderr.read()
    _, status, usage = os.wait4(done.pid, 0)
    if status:
        raise SystemExit(f"{command[0]}: {error}")
    return time.monotonic() - begin, usage.ru_maxrss / 1024


QUANTIZE = """
import ctypes, sys, llama_cpp
params = llama_cpp.llama_model_quantize_default_params()
params.ftype, params.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M, int(sys.argv[3])
sys.exit(llama_cpp.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), ctypes.byref(params)))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ggmill")
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path, help="where the checkpoint is made, or found")
    args = parser.parse_args()
    llama_cpp, python = os.environ["LLAMA_CPP"], os.environ["REFERENCE_PYTHON"]
    with tempfile.TemporaryDirectory(dir=args.keep and args.keep.parent) as work:
        work = pathlib.Path(work)
        source = args.keep or work / "checkpoint"
        if not (source / "model.safetensors").exists():
            source.mkdir(exist_ok=True)
            make(source, args.tokenizer)
        theirs, ours, mixed, mixed_ours = (work / name for name in ("reference-f16.gguf", "f16.gguf", "reference-q4.gguf", "q4.gguf"))
        script = [python, f"{llama_cpp}/convert_hf_to_gguf.py", source, "--outtype", "f16", "--outfile", theirs]
        threads = os.cpu_count()
        rows = {"script, F16": [], "ggmill, F16": [], "llama_model_quantize, Q4_K_M": [], "ggmill, Q4_K_M": []}
        for _ in range(args.rounds):
            rows["script, F16"].append(timed(*script))
            rows["ggmill, F16"].append(timed(args.ggmill, "convert", source, "-o", ours, "--type", "f16", "--force"))
            if not filecmp.cmp(theirs, ours, shallow=False):
                print("the F16 files differ")
            rows["llama_model_quantize, Q4_K_M"].append(timed(sys.executable, "-c", QUANTIZE, theirs, mixed, threads))
            rows["ggmill, Q4_K_M"].append(timed(args.ggmill, "convert", source, "-o", mixed_ours, "--type", "q4_k_m", "--force"))
            if not filecmp.cmp(mixed, mixed_ours, shallow=False):
                print("the Q4_K_M files differ")
            for path in (theirs, ours, mixed, mixed_ours):
                path.unlink()
        times = {}
        print("| work | seconds | MB resident |\n|---|--:|--:|")
        for name, row in rows.items():
            times[name] = statistics.median(seconds for seconds, _ in row)
            print(f"| {name} | {times[name]:.2f} | {max(memory for _, memory in row):.0f} |")
        both = times["script, F16"] + times["llama_model_quantize, Q4_K_M"]
        print(f"F16: {times['script, F16'] / times['ggmill, F16']:.1f}×; Q4_K_M: {both / times['ggmill, Q4_K_M']:.1f}×")


if __name__ == "__main__":
    main()

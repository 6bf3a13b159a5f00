"""Times `ggmill convert` beside the reference converter, on a checkpoint of 1.1 billion random weights, and on a vocabulary of 262,144 tokens.

    python convert_speed.py GGMILL TOKENIZER [--rounds N] [--keep DIRECTORY] [--vocabulary]

TOKENIZER is a directory with the files of a tokenizer (crates/ggmill-testdata/real/tinystories260K). The environment has LLAMA_CPP, the directory `vendor/llama.cpp` of the
source archive of llama-cpp-python 0.3.36, and REFERENCE_PYTHON, an interpreter with torch and transformers; the interpreter that runs this has llama-cpp-python.
Each round converts to F16 by the reference's script and by ggmill, and makes Q4_K_M by the script and llama_model_quantize and by ggmill in one pass; files are deleted after each,
and the page cache is written back before the clock starts. Printed are medians of wall-clock time and of processor time, and the greatest resident set. The F16 files must be
equal byte for byte; Q4_K_M is compared with what llama_model_quantize makes of the script's BF16 file, which is not in the timed work (from F16, 32 bits are rounded twice).
The vocabulary is a byte-fallback BPE as Gemma's (262,144 tokens, 260,847 merges) of syllables, converted with --vocab-only by both; --vocabulary does that alone.
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
VOCABULARY = 262144


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


def make_vocabulary(directory):
    """A tokenizer with as many tokens as Gemma's, made of syllables."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    letters = [*"▁abcdefghijklmnopqrstuvwxyzäöüß", *map(chr, range(0x3B1, 0x3CA)), *map(chr, range(0x430, 0x450)), *map(chr, range(0x4E00, 0x5200))]
    known = {token: number for number, token in enumerate([*special, *(f"<0x{byte:02X}>" for byte in range(256)), *letters])}
    tokens, merges = list(letters), []
    random = np.random.default_rng(262)
    while len(known) < VOCABULARY:
        for left, right in random.integers(0, len(tokens), (4096, 2)):
            token = tokens[left] + tokens[right]
            if len(known) < VOCABULARY and len(token) <= 12 and token not in known:
                known[token] = len(known)
                tokens.append(token)
                merges += [[token[:at], token[at:]] for at in range(1, len(token)) if token[:at] in known and token[at:] in known]
    added = [{"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for number, token in enumerate(special)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
                  "byte_fallback": True, "ignore_merges": False, "vocab": known, "merges": merges},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(names))
    (directory / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": VOCABULARY, "bos_token_id": 2, "eos_token_id": 1}))
    # No weights: the header is an empty object.
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", 8) + b"{}      ")
    print(f"{len(known)} tokens, {len(merges)} merges, {(directory / 'tokenizer.json').stat().st_size / 1e6:.0f} MB")


def apart(work, *arguments):
    """Does work in a process of its own: the greatest resident set of a command is at least that of the process that starts it."""
    child = os.fork()
    if child == 0:
        try:
            work(*arguments)
            sys.stdout.flush()
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the checkpoint was not made")


def timed(*command):
    """Seconds, seconds of processor time, and the greatest resident set in MB."""
    os.sync()
    begin = time.monotonic()
    done = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    error = done.stderr.read()
    _, status, usage = os.wait4(done.pid, 0)
    if status:
        raise SystemExit(f"{command[0]}: {error}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def table(rows):
    """Prints medians; those of time, by name."""
    found = {}
    print("| work | seconds | processor | MB resident |\n|---|--:|--:|--:|")
    for name, row in rows.items():
        wall, processor, memory = zip(*row)
        found[name] = statistics.median(wall), statistics.median(processor)
        print(f"| {name} | {found[name][0]:.2f} | {found[name][1]:.2f} | {max(memory):.0f} |")
    return found


def ratio(times, theirs, ours):
    """How many times as long the reference takes, in both clocks."""
    wall, processor = (sum(times[name][clock] for name in theirs) / times[ours][clock] for clock in (0, 1))
    return f"{wall:.1f}× ({processor:.1f}× in processor time)"


QUANTIZE = """
import ctypes, sys, llama_cpp
params = llama_cpp.llama_model_quantize_default_params()
params.ftype, params.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M, int(sys.argv[3])
sys.exit(llama_cpp.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), ctypes.byref(params)))
"""


def vocabulary(args, script, work):
    """Both sides on the vocabulary."""
    source, theirs, ours = work / "vocabulary", work / "reference.gguf", work / "ours.gguf"
    source.mkdir()
    apart(make_vocabulary, source)
    rows = {"script, 262,144 tokens": [], "ggmill, 262,144 tokens": []}
    for _ in range(args.rounds):
        rows["script, 262,144 tokens"].append(timed(*script, source, "--vocab-only", "--outtype", "f16", "--outfile", theirs))
        rows["ggmill, 262,144 tokens"].append(timed(args.ggmill, "convert", source, "--vocab-only", "-o", ours, "--type", "f16", "--force"))
        print("the files are equal" if filecmp.cmp(theirs, ours, shallow=False) else "the files DIFFER")
    times = table(rows)
    print(f"vocabulary: {ratio(times, ['script, 262,144 tokens'], 'ggmill, 262,144 tokens')}")


def weights(args, script, work):
    """Both sides on the weights."""
    source = args.keep or work / "checkpoint"
    if not (source / "model.safetensors").exists():
        source.mkdir(exist_ok=True)
        apart(make, source, args.tokenizer)
    theirs, ours, mixed = (work / name for name in ("reference.gguf", "ours.gguf", "reference-mixed.gguf"))
    threads = os.cpu_count()
    rows = {"script, F16": [], "ggmill, F16": [], "llama_model_quantize, Q4_K_M": [], "ggmill, Q4_K_M": []}
    for number in range(args.rounds):
        rows["script, F16"].append(timed(*script, source, "--outtype", "f16", "--outfile", theirs))
        rows["ggmill, F16"].append(timed(args.ggmill, "convert", source, "-o", ours, "--type", "f16", "--force"))
        print("F16: the files are equal" if filecmp.cmp(theirs, ours, shallow=False) else "F16: the files DIFFER")
        ours.unlink()
        rows["llama_model_quantize, Q4_K_M"].append(timed(sys.executable, "-c", QUANTIZE, theirs, mixed, threads))
        theirs.unlink()
        rows["ggmill, Q4_K_M"].append(timed(args.ggmill, "convert", source, "-o", ours, "--type", "q4_k_m", "--force"))
        if number == 0:
            mixed.unlink()
            timed(*script, source, "--outtype", "bf16", "--outfile", theirs)
            timed(sys.executable, "-c", QUANTIZE, theirs, mixed, threads)
            print("Q4_K_M: the files are equal" if filecmp.cmp(mixed, ours, shallow=False) else "Q4_K_M: the files DIFFER")
            theirs.unlink()
        mixed.unlink()
        ours.unlink()
    times = table(rows)
    print(f"F16: {ratio(times, ['script, F16'], 'ggmill, F16')}")
    print(f"Q4_K_M: {ratio(times, ['script, F16', 'llama_model_quantize, Q4_K_M'], 'ggmill, Q4_K_M')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ggmill")
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path, help="where the checkpoint is made, or found")
    parser.add_argument("--vocabulary", action="store_true", help="only the vocabulary")
    args = parser.parse_args()
    script = [os.environ["REFERENCE_PYTHON"], os.environ["LLAMA_CPP"] + "/convert_hf_to_gguf.py"]
    with tempfile.TemporaryDirectory(dir=args.keep and args.keep.parent) as work:
        vocabulary(args, script, pathlib.Path(work))
        if not args.vocabulary:
            weights(args, script, pathlib.Path(work))


if __name__ == "__main__":
    main()

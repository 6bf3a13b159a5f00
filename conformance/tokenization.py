"""Compares tokens with llama.cpp's: IDs of every text, with and without special tokens, and the bytes that they give back.

    python tokenization.py IDS LLAMA_CPP DATA CACHE [--each] [MODEL ...]
    python tokenization.py --record LLAMA_CPP DATA DIRECTORY

IDS is our program (`cargo build --release --package ggmill-tokenizer --example ids`), LLAMA_CPP a source tree of llama.cpp (that of llama-cpp-python 0.3.36,
with its vocabularies in `models`), DATA the directory of real files, CACHE a directory for what libllama said, which is computed once. The interpreter needs
llama-cpp-python 0.3.36. MODEL is a name, or its beginning followed by `*`; without any, all are compared. Texts are those of tokenization_texts.py, vocabularies
those of tokenization_models.py. Where llama.cpp goes by `std::regex`, texts are joined into longer ones, as every call takes it a millisecond; `--each` compares
one by one. The vocabularies of llama.cpp are also compared on its own texts (`.inp`), and the IDs with its own (`.out`).

A results file has, for each text: the IDs without special tokens and with (both flags of `llama_tokenize`), each as a count and so many numbers; then, each as a
length and so many bytes, what `llama_detokenize` makes of the first with `unparse_special`, of the second as it is, and of the second with both flags. Then, in
the same form as a text's three, one record for each ID alone: its piece without and with special tokens. Numbers have 32 bits, the least significant byte first;
2^32-1 as a count says that the reference refused (by an exception or by ending the process). Exit status 1 when anything differs.

`--record` writes into DIRECTORY (crates/ggmill-tokenizer/tests/vocabularies) the small vocabularies, a sample of texts, and a SHA-256 of the results for each
hundred texts, so that `cargo test` compares without Python.
"""

import ctypes
import hashlib
import re
import struct
import subprocess
import sys
from pathlib import Path

import tokenization_models
import tokenization_texts

REFUSED = (1 << 32) - 1
# Names whose expressions are hand-written scanners in llama.cpp, and vocabularies with such names.
SCANNED = {
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "dbrx", "smaug-bpe", "gpt-2", "phi-2", "jina-es",
    "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "exaone4", "mpt", "olmo",
    "jais", "trillion", "granite-docling", "stablelm2", "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "hunyuan", "solar-open", "qwen35",
    "chatglm-bpe", "glm4", "glm5", "kimi-k2", "grok-2", "laguna", "gemma4", "granite-embed-multi-311m", "sarvam-moe",
}
COMPILED = {"aquila", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gpt-neox", "refact", "starcoder", "small-whitespace"}
SAMPLE = 180  # texts of each kind


def compiled(name):
    """Whether llama.cpp compiles regular expressions for this vocabulary."""
    return name in COMPILED or name.startswith("pre-") and name[4:] not in SCANNED


# What libllama says. It runs in a process of its own, as an exception that leaves the library ends the process.


def worker(model, texts, out, skip, careful):
    import llama_cpp

    silent = llama_cpp.llama_log_callback(lambda *_: None)  # It must live as long as the library may call it.
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    loaded = llama_cpp.llama_model_load_from_file(str(model).encode(), parameters)
    if not loaded:
        sys.exit(3)
    vocab = llama_cpp.llama_model_get_vocab(loaded)
    room = 1 << 17
    ids = (ctypes.c_int32 * room)()
    text = ctypes.create_string_buffer(1 << 20)

    def encode(data, special):
        count = llama_cpp.llama_tokenize(vocab, data, len(data), ids, room, special, special)
        assert count >= 0, count
        return count, bytes(memoryview(ids).cast("B")[:4 * count])

    def decode(count, numbers, remove, unparse):
        ctypes.memmove(ids, numbers, len(numbers))
        length = llama_cpp.llama_detokenize(vocab, ids, count, text, len(text), remove, unparse)
        assert length >= 0, length
        return struct.pack("<I", length) + text.raw[:length] if length else bytes(4)

    with open(out, "ab") as file:
        for index, data in enumerate(tokenization_texts.read(Path(texts))):
            if index < skip:
                continue
            plain, special = encode(data, False), encode(data, True)
            record = b"".join(struct.pack("<I", count) + numbers for count, numbers in (plain, special))
            record += decode(*plain, False, True) + decode(*special, False, False) + decode(*special, True, True)
            file.write(record)
            if careful:
                file.flush()
        for id in range(llama_cpp.llama_vocab_n_tokens(vocab)):
            number = struct.pack("<i", id)
            file.write(decode(1, number, False, False) + decode(1, number, False, True))


def records(data, texts):
    """The end of each text's record."""
    at = 0
    for _ in range(texts):
        start = at
        for width in (4, 4, 1, 1, 1):
            if at + 4 > len(data):
                return
            (count,) = struct.unpack_from("<I", data, at)
            at += 4 + (0 if count == REFUSED else width * count)
        if at > len(data):
            return
        yield start, at


def reference(model, texts, count, out):
    """What libllama says, by as many processes as it takes."""
    if out.exists():
        return
    part = out.with_suffix(".part")
    part.unlink(missing_ok=True)
    part.touch()
    done, careful, refused = 0, False, 0
    while True:
        command = [sys.executable, __file__, "--worker", model, texts, part, str(done), "careful" if careful else ""]
        status = subprocess.run(command, stderr=subprocess.DEVNULL).returncode
        if status == 0:
            break
        ends = list(records(part.read_bytes(), count))
        done = len(ends)
        with open(part, "r+b") as file:
            file.truncate(ends[-1][1] if ends else 0)
            if careful:
                # Every record was written as soon as it was complete: the next text is the one.
                file.seek(0, 2)
                file.write(struct.pack("<5I", *[REFUSED] * 5))
                done, refused = done + 1, refused + 1
        if status == 3 or done > count or refused > 300:
            raise SystemExit(f"{model}: libllama does not load it, or refuses {refused} texts")
        careful = True
    part.rename(out)


def difference(path, texts, ours, theirs, vocabulary):
    """Describes the first texts over which the two differ."""
    mine, reference = ours.read_bytes(), theirs.read_bytes()
    if mine == reference:
        return 0
    found = 0
    left, right = records(mine, len(texts)), records(reference, len(texts))
    for index, text in enumerate(texts):
        a, b = next(left, (0, 0)), next(right, (0, 0))
        if mine[a[0]:a[1]] != reference[b[0]:b[1]]:
            found += 1
            if found <= 5:
                print(f"  text {index}: {text[:300]!r}")
                print(f"    ggmill    {shown(mine[a[0]:a[1]])}\n    llama.cpp {shown(reference[b[0]:b[1]])}")
    if not found:
        print("  the pieces differ")
        found = 1
    return found


def shown(record):
    at, parts = 0, []
    for width in (4, 4, 1, 1, 1):
        if at + 4 > len(record):
            break
        (count,) = struct.unpack_from("<I", record, at)
        at += 4
        if count == REFUSED:
            parts.append("refused")
            continue
        data = record[at:at + width * count]
        at += len(data)
        parts.append(list(struct.unpack(f"<{len(data) // 4}i", data))[:40] if width == 4 else data[:120])
    return str(parts)


def upstream_texts(llama_cpp, name):
    """llama.cpp's own texts for a vocabulary, and their IDs."""
    path = llama_cpp / f"models/ggml-vocab-{name}.gguf.inp"
    if not path.exists():
        return [], []
    texts = path.read_bytes().decode().split("\n__ggml_vocab_test__\n")
    texts[-1] = texts[-1].removesuffix("\n__ggml_vocab_test__").removesuffix("__ggml_vocab_test__\n")
    ids = [[int(each) for each in line.split()] for line in path.with_suffix(".out").read_text().splitlines()]
    return [text.encode() for text in texts[:len(ids)]], ids


def main(ids, llama_cpp, data, cache, *names):
    llama_cpp, data, cache = Path(llama_cpp).resolve(), Path(data), Path(cache)
    each = "--each" in names
    names = [name for name in names if name != "--each"]
    cache.mkdir(parents=True, exist_ok=True)
    sets = {"each": lambda: [text for _, text in tokenization_texts.corpus(llama_cpp)], "joined": lambda: [text for _, text in tokenization_texts.joined(llama_cpp)]}
    texts = {}
    for kind, make in sets.items():
        texts[kind] = make()
        tokenization_texts.write(cache / f"{kind}.texts", texts[kind])
    available = tokenization_models.models(llama_cpp, data)
    chosen = [name for name in available if not names or any(re.fullmatch(pattern.replace("*", ".*"), name) for pattern in names)]
    wrong = 0
    for name in chosen:
        model = cache / f"{name}.gguf"
        if not model.exists():
            model.write_bytes(available[name]())
        kinds = ["joined" if compiled(name) and not each else "each"]
        own, expected = upstream_texts(llama_cpp, name)
        if own:
            texts[name] = own
            tokenization_texts.write(cache / f"{name}.texts", own)
            kinds.append(name)
        for kind in kinds:
            file = cache / f"{kind}.texts"
            print(f"{name}: {len(texts[kind])} texts", flush=True)
            digest = hashlib.sha256(file.read_bytes() + model.read_bytes()).hexdigest()[:16]
            theirs = cache / f"{name}.{kind}.{digest}"
            reference(model, file, len(texts[kind]), theirs)
            if kind == name:
                results = theirs.read_bytes()
                for index, (start, _) in enumerate(records(results, len(own))):
                    (count,) = struct.unpack_from("<I", results, start)
                    if list(struct.unpack_from(f"<{count}i", results, start + 4)) != expected[index]:
                        print(f"  libllama differs from {name}.gguf.out in line {index + 1}")
                        wrong += 1
            ours = cache / f"{name}.{kind}.ours"
            if ids == "-":
                continue
            status = subprocess.run([ids, model, file, ours]).returncode
            count = difference(file, texts[kind], ours, theirs, model) if status == 0 else 1
            wrong += count
            if count:
                print(f"  DIFFERS in {count}")
    print("equal" if not wrong else f"{wrong} differ")
    sys.exit(1 if wrong else 0)


def record(llama_cpp, data, directory):
    """Small vocabularies, a sample of the texts, and hashes of what libllama says of each."""
    llama_cpp, directory = Path(llama_cpp).resolve(), Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    kinds = {}
    for kind, text in tokenization_texts.corpus(llama_cpp):
        if len(text) <= 200:
            kinds.setdefault(kind, []).append(text)
    numbers = tokenization_texts.Numbers(56)
    sample = [numbers.of(kind) for kind in kinds.values() for _ in range(SAMPLE)]
    file = directory / "sample.texts"
    tokenization_texts.write(file, sample)
    lines = []
    for name, make in tokenization_models.SMALL.items():
        model, out = directory / f"{name}.gguf", directory / f"{name}.results"
        model.write_bytes(make())
        out.unlink(missing_ok=True)
        reference(model, file, len(sample), out)
        results = out.read_bytes()
        ends = [end for _, end in records(results, len(sample))]
        bounds = [0, *ends[99::100]]
        if bounds[-1] != ends[-1]:
            bounds.append(ends[-1])
        bounds.append(len(results))
        refused = sum(results[start:start + 4] == b"\xff" * 4 for start, _ in records(results, len(sample)))
        print(name, len(results), refused, "refused")
        lines += [f"{name} {index} {hashlib.sha256(results[a:b]).hexdigest()}" for index, (a, b) in enumerate(zip(bounds, bounds[1:]))]
        out.unlink()
    head = "# SHA-256 of what libllama (llama-cpp-python 0.3.36) makes of each hundred texts of sample.texts, and last of every ID alone.\n# Written by `python3 conformance/run.py tokenize --record`; the form is described in conformance/tokenization.py.\n"
    (directory / "expected.txt").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 7 and sys.argv[1] == "--worker":
        worker(*sys.argv[2:5], int(sys.argv[5]), bool(sys.argv[6]))
    elif len(sys.argv) == 5 and sys.argv[1] == "--record":
        record(*sys.argv[2:])
    elif len(sys.argv) >= 5:
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)

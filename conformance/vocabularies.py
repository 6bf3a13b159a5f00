"""Makes small tokenizers of every kind, and records what the reference converter makes of each.

    python vocabularies.py LLAMA_CPP DIRECTORY [NAME ...]

LLAMA_CPP is a llama.cpp source tree (that of llama-cpp-python 0.3.36), DIRECTORY crates/ggmill-convert/tests/vocabularies; the interpreter needs torch 2.11.0,
transformers 4.57.6, sentencepiece and gguf 0.19.0. Each case is a JSON file with the files of a checkpoint's directory, and the keys and the SHA-256 of the
file that `convert_hf_to_gguf.py --vocab-only --outtype f16` makes of it; the directory has the name of the case. `@NAME` stands for a bundled file, and a file
whose name ends in ` (hex)` is binary; one in ` (lines)` has these lines, and empty ones before and between.

A case with `vocabulary` has the `[vocabulary]` of a description beside: there, hyperparameters are left out on both sides (the class's
`set_gguf_parameters` does nothing), and the keys and the hash are those of the file from its first `tokenizer.` key on.

The tokenizers with the names of pre-tokenizers are sparse: of the vocabularies in LLAMA_CPP/models they have what the check text of the pre-tokenizer needs,
under the same IDs, so that the reference knows their hash. Added tokens are among the model's tokens, or they would be given IDs that others have.

A case with `ours` is converted differently on purpose: it has our hash and keys, and the reason. They are kept when the case is recorded again.

A case with `pre` has a tokenizer whose hash the reference does not know. It was converted with that hash as the name of its pre-tokenizer.
"""

import hashlib
import json
import runpy
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LLAMA_CPP, OUT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path[:0] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]

import conversion  # noqa: E402
import gguf  # noqa: E402
import vocabulary_cases  # noqa: E402

BUNDLED = ROOT / "crates/ggmill-testdata/real"
MODEL = "@tinystories260K/tokenizer.model"
CHECK = json.loads((ROOT / "crates/ggmill-convert/data/pretokenizers.txt").read_text(encoding="utf-8").splitlines()[1])
CONFIG = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=64, intermediate_size=96, num_attention_heads=8, num_hidden_layers=2,
    num_key_value_heads=4, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0,
)


def config(**more):
    return {**CONFIG, **more}


def token(id, content, special=True, **flags):
    return dict(id=id, content=content, single_word=False, lstrip=False, rstrip=False, normalized=not special, special=special) | flags


def decoder_of(tokens):
    return {str(each["id"]): {name: value for name, value in each.items() if name != "id"} for each in tokens}


def byte_alphabet():
    """The characters that stand for bytes."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + number) for number, byte in enumerate(others)}


def sparse(name):
    """What the check text needs of a vocabulary: its tokens with their IDs, and its merges."""
    reader = gguf.GGUFReader(LLAMA_CPP / f"models/ggml-vocab-{name}.gguf")
    tokens, merges = (reader.get_field(f"tokenizer.ggml.{key}").contents() for key in ("tokens", "merges"))
    alphabet = byte_alphabet()
    text = "".join(alphabet[byte] for byte in CHECK.encode())
    # A merge that is never applied changes nothing, and one that is applied gives a part of the text; NFC changes none of it.
    merges = [merge for merge in merges if merge.replace(" ", "") in text]
    known = {each: id for id, each in enumerate(tokens)}
    needed = set(alphabet.values()) | {part for merge in merges for part in [*merge.split(" "), merge.replace(" ", "")]}
    return {each: known[each] for each in sorted(needed, key=lambda each: known.get(each, 0)) if each in known}, merges, tokens


def split(pattern, behavior="Isolated", kind="Regex"):
    return dict(type="Split", pattern={kind: pattern}, behavior=behavior, invert=False)


def byte_level(use_regex, trim_offsets=True):
    return dict(type="ByteLevel", add_prefix_space=False, trim_offsets=trim_offsets, use_regex=use_regex)


def sequence(*parts):
    return dict(type="Sequence", pretokenizers=list(parts))


def bpe(vocab, merges, pre_tokenizer, added, pairs=False, **more):
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False, byte_fallback=False)
    model |= {name: more.pop(name) for name in ("byte_fallback", "unk_token", "fuse_unk") if name in more}
    model |= dict(ignore_merges=more.pop("ignore_merges", False), vocab=vocab, merges=[merge.split(" ") for merge in merges] if pairs else merges)
    return dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None, pre_tokenizer=pre_tokenizer, post_processor=None,
                decoder=byte_level(True), model=model) | more


def template(single, pair, **ids):
    def part(name):
        return {"Sequence": dict(id=name, type_id=0)} if name in "AB" else {"SpecialToken": dict(id=name, type_id=0)}

    special = {name: dict(id=name, ids=[id], tokens=[name]) for name, id in ids.items()}
    return dict(type="TemplateProcessing", single=[part(name) for name in single], pair=[part(name) for name in pair], special_tokens=special)


LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def cases():
    plain = dict(tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    added = [token(0, "<unk>", special=False), token(1, "<s>"), token(2, "</s>"), token(515, "<|user|>", special=False), token(516, "\u2581a\u2581b", special=False),
             token(530, "<beyond>")]
    yield "spm-added", {
        "config.json": config(vocab_size=520, bos_token_id=1, eos_token_id=[2, 515], pad_token_id=600, unk_token_id=0),
        "tokenizer.model": MODEL,
        "added_tokens.json": {"<x>": 512, "\u2581y": 513, "<far>": 521},
        "tokenizer_config.json": plain | dict(added_tokens_decoder=decoder_of(added), add_prefix_space=True, chat_template=[
            dict(name="default", template="{{ messages }}"), dict(name="tool use", template="tools"), dict(name="", template="none"), dict(name="empty"),
        ]),
    }
    # More pieces than tokens, and a template of its own file; the language model is a part of the configuration.
    yield "spm-short", {
        "config.json": config(text_config=dict(vocab_size=300, eos_token_id=2), bos_token_id=None),
        "tokenizer.model": MODEL,
        "tokenizer_config.json": dict(bos_token=dict(content="<s>"), add_prefix_space=False),
        "chat_template.jinja": "{{ bos_token }}\r\n{{ messages }}\n",
        "chat_template.json": dict(chat_template="not this one"),
    }
    # Special tokens from the post-processor, which ends a text with another one than the configuration names.
    yield "spm-processor", {
        "config.json": config(vocab_size=512, eos_token_id=2, eot_token_id=5),
        "tokenizer.model": MODEL,
        "tokenizer_config.json": dict(cls_token="<s>", eos_token=dict(content="</s>"), add_eos_token=True, pad_token="<pad>", sep_token="<sep>"),
        "tokenizer.json": dict(
            added_tokens=[token(1, "<s>"), token(2, "</s>"), token(7, "<end>"), token(9, "<pad>"), token(10, "<sep>"), token(900, "<far>")],
            normalizer=dict(type="Sequence", normalizers=[dict(type="Lowercase"), dict(type="BertNormalizer", strip_accents=False)]),
            post_processor=dict(type="Sequence", processors=[
                byte_level(True), template(["<s>", "A", "<end>"], ["<s>", "A", "<sep>", "<end>", "B", "<end>"], **{"<s>": 1, "<end>": 7}),
            ]),
            model=dict(type="BPE", vocab={}, merges=[]),
        ),
        "chat_template.json": dict(chat_template="from JSON"),
    }
    # CodeLlama and small Granite models are known by the size of the vocabulary.
    for size in (32016, 49152):
        yield f"spm-{size}", {"config.json": config(vocab_size=size, bos_token_id=1), "tokenizer.model": MODEL, "tokenizer_config.json": plain}

    letters = {each: number for number, each in enumerate(["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "b", "ab", "\u2581ab"])}
    yield "llama-hf", {
        "config.json": config(vocab_size=266, bos_token_id=1, eos_token_id=2),
        "tokenizer_config.json": plain | dict(tokenizer_class="LlamaTokenizerFast", additional_special_tokens=["<|im_start|>"]),
        "special_tokens_map.json": dict(pad_token="</s>"),
        "tokenizer.json": bpe(letters, ["a b", "\u2581 ab"], None, [token(0, "<unk>"), token(1, "<s>"), token(2, "</s>"), token(264, "<|im_start|>"), token(265, "<tool>", special=False)],
                              byte_fallback=True, unk_token="<unk>", fuse_unk=True,
                              normalizer=dict(type="Sequence", normalizers=[dict(type="Prepend", prepend="\u2581"), dict(type="Replace", pattern=dict(String=" "), content="\u2581")]),
                              decoder=dict(type="Sequence", decoders=[dict(type="ByteFallback"), dict(type="Fuse")]),
                              post_processor=template(["<s>", "A"], ["<s>", "A", "<s>", "B"], **{"<s>": 1})),
    }


def byte_level_cases():
    vocab, merges, tokens = sparse("gpt-2")
    yield "gpt-2", {
        "config.json": config(vocab_size=len(tokens), bos_token_id=50256, eos_token_id=50256),
        "tokenizer_config.json": dict(tokenizer_class="GPT2Tokenizer"),
        "tokenizer.json": bpe(vocab | {"<|endoftext|>": 50256}, merges, byte_level(True), [token(50256, "<|endoftext|>", normalized=True)],
                              post_processor=byte_level(True, trim_offsets=False)),
    }
    vocab, merges, tokens = sparse("llama-bpe")
    added = [token(128000, "<|begin_of_text|>"), token(128001, "<|end_of_text|>"), token(128009, "<|eot_id|>"), token(128011, "Ġmine", special=False, normalized=False)]
    yield "llama-bpe", {
        "config.json": config(vocab_size=len(tokens), bos_token_id=128000, eos_token_id=[128001, 128009]),
        "tokenizer_config.json": dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<|begin_of_text|>", eos_token="<|eot_id|>", added_tokens_decoder=decoder_of(added),
                                      chat_template="{{ bos_token }}", clean_up_tokenization_spaces=True),
        "tokenizer.json": bpe(vocab | {each["content"]: each["id"] for each in added}, merges, sequence(split(LLAMA3), byte_level(False)), added, ignore_merges=True,
                              post_processor=dict(type="Sequence", processors=[
                                  byte_level(True, trim_offsets=False),
                                  template(["<|begin_of_text|>", "A"], ["<|begin_of_text|>", "A", "<|begin_of_text|>", "B"], **{"<|begin_of_text|>": 128000})])),
    }
    vocab, merges, tokens = sparse("qwen2")
    added = [token(151643, "<|endoftext|>"), token(151644, "<|im_start|>"), token(151645, "<|im_end|>"), token(151657, "<tool_call>", special=False, normalized=False),
             token(151658, "a b .", special=False, normalized=False)]
    yield "qwen2", {
        "config.json": config(vocab_size=151936, bos_token_id=151643, eos_token_id=151645),
        "tokenizer_config.json": dict(tokenizer_class="Qwen2Tokenizer", bos_token=None, eos_token="<|im_end|>", pad_token="<|endoftext|>", add_bos_token=False,
                                      add_prefix_space=False, added_tokens_decoder=decoder_of(added), additional_special_tokens=["<|im_start|>", "<|im_end|>"],
                                      clean_up_tokenization_spaces=True),
        "chat_template.jinja": "{{ messages }}",
        "tokenizer.json": bpe(vocab | {each["content"]: each["id"] for each in added}, merges, sequence(split(QWEN2), byte_level(False)), added[:4], pairs=True, normalizer=dict(type="NFC"),
                              post_processor=byte_level(False, trim_offsets=False)),
    }
    vocab, merges, tokens = sparse("falcon")
    yield "falcon", {
        "config.json": config(vocab_size=len(tokens), bos_token_id=11, eos_token_id=11),
        "tokenizer_config.json": dict(tokenizer_class="PreTrainedTokenizerFast", eos_token="<|endoftext|>", add_prefix_space=False),
        "special_tokens_map.json": dict(eos_token="<|endoftext|>", additional_special_tokens=[">>TITLE<<", ">>QUESTION<<"]),
        "tokenizer.json": bpe(vocab | {tokens[id]: id for id in range(12)}, merges,
                              sequence(dict(type="Punctuation", behavior="Contiguous"), byte_level(True), dict(type="Digits", individual_digits=False), split("[0-9][0-9][0-9]")),
                              [token(id, tokens[id]) for id in range(12)]),
    }
    vocab, merges, tokens = sparse("starcoder")
    yield "starcoder", {
        "config.json": config(vocab_size=len(tokens), bos_token_id=0, eos_token_id=0),
        "tokenizer_config.json": dict(tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>", add_prefix_space=False),
        "tokenizer.json": bpe(vocab | {tokens[id]: id for id in range(19)}, merges, sequence(dict(type="Digits", individual_digits=True), byte_level(True)),
                              [token(id, tokens[id]) for id in range(19)]),
    }


def pair_cases():
    """`vocab.json` and `merges.txt` without tokenizer.json, as checkpoints had them before, for each way in which a class reads them."""
    def files(vocab, merges, **more):
        return {"vocab.json": vocab, "merges.txt": "\n".join(["#version: 0.2", *merges, ""])} | {name.replace("_json", ".json"): it for name, it in more.items()}

    vocab, merges, tokens = sparse("gpt-2")
    gpt2 = vocab | {"<|endoftext|>": 50256}
    yield "pairs-gpt2", {"config.json": config(vocab_size=len(tokens), bos_token_id=50256), "tokenizer_config.json": dict(tokenizer_class="GPT2TokenizerFast"), **files(gpt2, merges)}
    # Added tokens have the IDs after those of the model, so its tokens are counted again; the IDs of the check text are not known then.
    compact = {text: id for id, text in enumerate(gpt2)}
    size, last = len(compact), compact["<|endoftext|>"]
    yield "pairs-gpt2-map", {
        "pre": True,
        "config.json": config(bos_token_id=last, eos_token_id=last),
        "tokenizer_config.json": dict(tokenizer_class="GPT2Tokenizer", add_prefix_space=False, chat_template="{{ messages }}"),
        **files(compact, merges, special_tokens_map_json=dict(
            bos_token="<|endoftext|>", pad_token=dict(content="<pad>", lstrip=True, rstrip=False, single_word=False, normalized=True),
            additional_special_tokens=["<a>", dict(content="Ġb", lstrip=False, rstrip=True, single_word=False, normalized=False)])),
    }
    # Runs of spaces among the added tokens are in the check text.
    yield "pairs-codegen", {
        "pre": True,
        "config.json": config(vocab_size=size + 8, bos_token_id=last, eos_token_id=last),
        "tokenizer_config.json": dict(tokenizer_class="CodeGenTokenizer"),
        **files(compact, merges, added_tokens_json={"  ": size + 3, "Ġx": size + 1, "<x>": size, "<pad>": size + 2}, special_tokens_map_json=dict(pad_token="<pad>")),
    }
    added = [token(last, "<|endoftext|>"), token(size, "<p>", normalized=True), token(size + 1, "Ġy", special=False, normalized=False)]
    yield "pairs-gpt2-decoder", {
        "pre": True,
        "config.json": config(vocab_size=size + 2),
        "tokenizer_config.json": dict(tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>", pad_token="<p>", add_bos_token=True, add_prefix_space=True,
                                      clean_up_tokenization_spaces=True, added_tokens_decoder=decoder_of(added)),
        # Without a line feed at the end, the last merge is lost.
        **files(compact, merges), "merges.txt": "\n".join(["#version: 0.2", *merges, "Ġ Ġ"]),
    }
    roberta = {text: id for id, text in enumerate(["<s>", "<pad>", "</s>", "<unk>", *vocab, "<mask>"])}
    yield "pairs-roberta", {
        "pre": True, "vocabulary": """kinds = ["bpe"]\n""",
        "config.json": config(vocab_size=len(roberta) + 1, bos_token_id=0, eos_token_id=2, pad_token_id=1),
        "tokenizer_config.json": dict(tokenizer_class="RobertaTokenizer", mask_token="<mask>", sep_token="</s>"),
        **files(roberta, merges),
    }
    vocab, merges, tokens = sparse("qwen2")
    added = [token(151643, "<|endoftext|>"), token(151644, "<|im_start|>"), token(151645, "<|im_end|>")]
    yield "pairs-qwen2", {
        "config.json": config(vocab_size=151936, eos_token_id=151645),
        "tokenizer_config.json": dict(tokenizer_class="Qwen2Tokenizer", eos_token="<|im_end|>", pad_token="<|endoftext|>", bos_token=None,
                                      added_tokens_decoder=decoder_of(added), additional_special_tokens=["<|im_start|>", "<|im_end|>"]),
        **files(vocab | {each["content"]: each["id"] for each in added}, merges), "merges.txt": "\n\n" + "\n".join(merges),
    }


def unscored_cases():
    letters = {text: number for number, text in enumerate(["<unk>", "<s>", "</s>", "\0", *(f"<0x{byte:02x}>" for byte in range(256)), "a", "b", "ab", "<|user|>"])}
    yield "unscored", {
        "vocabulary": "kinds = [\"unscored\"]\n",
        "config.json": config(architectures=["XverseForCausalLM"], vocab_size=len(letters) + 1, bos_token_id=2, pad_token_id=1),
        "tokenizer_config.json": dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", chat_template="{{ messages }}"),
        "tokenizer.json": bpe(letters, ["a b"], None, [token(0, "<unk>"), token(1, "<s>"), token(2, "</s>"), token(263, "<|user|>", special=False), token(264, "<new>")]),
    }


def written(place, files):
    for name, content in files.items():
        if name.endswith(" (hex)"):
            (place / name.removesuffix(" (hex)")).write_bytes(bytes.fromhex(content))
        elif name.endswith(" (lines)"):
            lines = (content.get(number, "") + "\n" for number in range(max(content) + 1))
            (place / name.removesuffix(" (lines)")).write_bytes("".join(lines).encode())
        elif isinstance(content, str) and content.startswith("@"):
            (place / name).write_bytes((BUNDLED / content[1:]).read_bytes())
        elif isinstance(content, str):
            (place / name).write_bytes(content.encode())
        else:
            (place / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def hash_of(model, tokenizer):
    """The hash of the check text, as the name of the pre-tokenizer."""
    return hashlib.sha256(str(tokenizer.encode(CHECK)).encode()).hexdigest()


def converted(name, files, alone, hashed):
    with tempfile.TemporaryDirectory() as work:
        place = Path(work) / name
        place.mkdir()
        written(place, files)
        out = Path(work) / "out.gguf"
        sys.argv = ["convert_hf_to_gguf.py", str(place), "--outfile", str(out), "--outtype", "f16", "--vocab-only"]
        if alone:
            conversion.get_model_class(files["config.json"].get("text_config", files["config.json"])["architectures"][0]).set_gguf_parameters = lambda self: None
        if hashed:
            conversion.base.TextModel.get_vocab_base_pre = hash_of
        runpy.run_path(str(LLAMA_CPP / "convert_hf_to_gguf.py"), run_name="__main__")
        reader = gguf.GGUFReader(out)
        keys = [field for field in reader.fields if not field.startswith("GGUF.")]
        content = out.read_bytes()
        pre = reader.get_field("tokenizer.ggml.pre").contents() if hashed else None
        if not alone:
            return keys, hashlib.sha256(content).hexdigest(), pre
        # A key begins with its length in eight bytes.
        first = next(number for number, key in enumerate(keys) if key.startswith("tokenizer."))
        return keys[first:], hashlib.sha256(content[content.index(b"tokenizer.") - 8:]).hexdigest(), pre


def main(names):
    OUT.mkdir(exist_ok=True)
    for name, files in [*cases(), *byte_level_cases(), *pair_cases(), *unscored_cases(), *vocabulary_cases.cases(sys.modules[__name__])]:
        if names and name not in names:
            continue
        vocabulary, hashed = files.pop("vocabulary", None), files.pop("pre", False)
        known = conversion.base.TextModel.get_vocab_base_pre
        try:
            keys, digest, pre = converted(name, files, vocabulary is not None, hashed)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            print(f"FAILED {name}: {type(error).__name__}: {error}")
            continue
        finally:
            conversion.base.TextModel.get_vocab_base_pre = known
        case = dict(sha256=digest, keys=keys) | (dict(pre=pre) if hashed else {}) | (dict(vocabulary=vocabulary) if vocabulary is not None else {}) | dict(files=files)
        known = json.loads((OUT / f"{name}.json").read_text(encoding="utf-8")) if (OUT / f"{name}.json").exists() else {}
        case = ({"ours": known["ours"]} if "ours" in known else {}) | case
        (OUT / f"{name}.json").write_text(json.dumps(case, ensure_ascii=False, indent=None, separators=(", ", ": ")) + "\n", encoding="utf-8")
        print(f"{name}: {len(keys)} keys, {digest}")


main(sys.argv[3:])

"""Saves tokenizers of every kind with transformers 5, and records the library's token IDs.

    python tokenizer_kinds.py DIRECTORY [NAME ...]

DIRECTORY is crates/ggmill-testdata/tokenizers; the interpreter needs transformers 5.24.0, tokenizers 0.23.3 and sentencepiece 0.2.3. All vocabularies are trained
on the texts of crates/ggmill-tokenizer/data/verification.txt, so that they are small and know their characters.

Each file has the files of a checkpoint without weights, and in `ids` one CRC-32 for each text: that of the IDs of `tokenizers.Tokenizer.from_file(...)
.encode(text)`, joined by commas. The added tokens that take the places of `\\0` to `\\9` are in `added`. `decoded` has a CRC-32 of the text that
`decode(ids, skip_special_tokens=False)` returns for each of them. A variant has a `base`, and the members of the files that it changes.
`auto` is the number of texts for which `AutoTokenizer.from_pretrained(...)` gives other IDs: its classes change some files as they load them.
"""

import io
import json
import sys
import tempfile
import zlib
from pathlib import Path

import sentencepiece
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tokenizer_texts import FILE, with_added

TEXTS = FILE.read_text(encoding="utf-8").splitlines()
OUT = Path(sys.argv[1])
LLAMA = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=64, intermediate_size=96, num_attention_heads=8, num_hidden_layers=2,
    num_key_value_heads=4, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0,
)
CORPUS = [with_added(line, [f"<|{n}|>" for n in range(10)]) for line in TEXTS]


def chosen(tokens):
    """Ten added tokens: one of each combination of flags, then the others by ID."""
    flags = lambda token: (token.special, token.normalized, token.lstrip, token.rstrip, token.single_word)
    ordered = [tokens[id] for id in sorted(tokens)]
    first = list({flags(token): token for token in reversed(ordered)}.values())
    first = [token for token in ordered if token in first]
    rest = [token for token in ordered if token not in first]
    found = [token.content for token in (first + rest)[:10]]
    return [found[n % len(found)] for n in range(10)] if found else [f"<|{n}|>" for n in range(10)]


def pieces(**options):
    """A SentencePiece model."""
    data = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for text in CORPUS if "\n" not in text] * 4), model_writer=data, num_threads=1, hard_vocab_limit=False, minloglevel=2,
        **{"vocab_size": 900, "character_coverage": 0.98, "byte_fallback": True, "normalization_rule_name": "identity", **options},
    )
    return data.getvalue()


RULES = [("Å", "Å"), ("Å", "Å"), ("é", "é"), ("ﬁ", "fi"), ("①", "1"), ("½", "1⁄2"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\u200b", " "), ("Ａ", "A"), ("Ｂ", "B"), ("１", "1"), ("…", "..."), ("™", "TM")]


def of_pieces(name, place, **options):
    """A tokenizer that a class of the library makes of a SentencePiece model."""
    rules = options.pop("rules", None)
    added = options.pop("added", [])
    made = options.pop("make", {})
    if rules:
        table = place / "rules.tsv"
        codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
        table.write_text("".join(f"{codes(a)}\t{codes(b)}\n" for a, b in rules if a != b), encoding="utf-8")
        options["normalization_rule_tsv"] = table
    file = place / made.pop("file", "tokenizer.model")
    file.write_bytes(pieces(**options))
    tokenizer = getattr(transformers, name).from_pretrained(place, **made)
    tokenizer.add_tokens(added)
    return tokenizer


def byte_level(pattern=None, size=500, normalizer=None, add_prefix_space=False, digits=False, post=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps += [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    else:
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space))
    tokenizer.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = post or processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


FLAGS = [
    AddedToken("<|plain|>", normalized=False), AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
    AddedToken("cat", single_word=True, normalized=False), AddedToken("Normal Word", normalized=True), AddedToken("<both>", lstrip=True, rstrip=True, special=True, normalized=False),
    AddedToken("été", normalized=True), AddedToken("  ", normalized=False), AddedToken("<|im_start|>", special=True, normalized=False),
]
GPT4O = "|".join([
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""", r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""", r"""\s*[\r\n]+""", r"""\s+(?!\S)""", r"""\s+""",
])
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")


def around(first, last, ids):
    return processors.TemplateProcessing(single=" ".join(filter(None, [first, "$A", last])), special_tokens=ids)


def backend(tokenizer, **tokens):
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens)


def bert(**normalizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = around("[CLS]", "[SEP]", [("[CLS]", 2), ("[SEP]", 3)])
    return backend(tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", mask_token=AddedToken("[MASK]", lstrip=True, special=True))


def plain_bpe(place, normalizer, pre_tokenizer, decoder, **model):
    """The pieces of a SentencePiece model as character-level BPE."""
    (place / "tokenizer.model").write_bytes(pieces(model_type="bpe"))
    of_class = transformers.LlamaTokenizer.from_pretrained(place)
    state = json.loads(of_class.backend_tokenizer.to_str())
    state |= {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder}
    state["model"] |= model
    return backend(Tokenizer.from_str(json.dumps(state)), bos_token="<s>", eos_token="</s>", unk_token="<unk>")


REPLACE = dict(type="Replace", pattern=dict(String=" "), content="▁")
DECODER = dict(type="Sequence", decoders=[dict(type="Replace", pattern=dict(String="▁"), content=" "), dict(type="ByteFallback"), dict(type="Fuse"), dict(type="Strip", content=" ", start=1, stop=0)])
KINDS = {
    "llama": lambda place: (of_pieces("LlamaTokenizer", place, model_type="bpe"), {}),
    "llama-prepend": lambda place: (plain_bpe(place, dict(type="Sequence", normalizers=[dict(type="Prepend", prepend="▁"), REPLACE]), None, DECODER), {}),
    "gemma": lambda place: (of_pieces("GemmaTokenizer", place, model_type="bpe", make=dict(bos_token="<s>", eos_token="</s>")), dict(model_type="gemma2", architectures=["Gemma2ForCausalLM"])),
    "t5": lambda place: (of_pieces("T5Tokenizer", place, model_type="unigram", byte_fallback=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, rules=RULES, make=dict(extra_ids=4)), dict(model_type="t5", architectures=["T5ForConditionalGeneration"], decoder_start_token_id=0)),
    "xlm-roberta": lambda place: (of_pieces("XLMRobertaTokenizer", place, model_type="unigram", byte_fallback=False, rules=RULES, make=dict(file="sentencepiece.bpe.model")), dict(model_type="xlm-roberta", architectures=["XLMRobertaModel"])),
    "bert": lambda place: (bert(), dict(model_type="bert", architectures=["BertModel"])),
    "bert-cased": lambda place: (bert(lowercase=False, strip_accents=False), dict(model_type="bert", architectures=["BertModel"])),
    "gpt-2": lambda place: (backend(byte_level(), bos_token="<|endoftext|>", eos_token="<|endoftext|>"), dict(model_type="gpt2", architectures=["GPT2LMHeadModel"])),
    "qwen2": lambda place: (backend(byte_level(QWEN2, normalizer=normalizers.NFC()), eos_token="<|endoftext|>"), dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"])),
    "llama-3": lambda place: (backend(byte_level(LLAMA3, ignore_merges=True, post=around("<|endoftext|>", None, [("<|endoftext|>", 0)])), bos_token="<|endoftext|>", eos_token="<|endoftext|>"), {}),
    "gpt-4o": lambda place: (backend(byte_level(GPT4O), eos_token="<|endoftext|>"), {}),
    "starcoder": lambda place: (backend(byte_level(digits=True), eos_token="<|endoftext|>"), {}),
    "nfkc": lambda place: (backend(byte_level(normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))), {}),
    "nfd": lambda place: (backend(byte_level(normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Nmt(), normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")]))), {}),
    "nfkd": lambda place: (backend(byte_level(add_prefix_space=True, normalizer=normalizers.NFKD())), {}),
    "parts": lambda place: (parts(), {}),
    "words": lambda place: (words(), {}),
}


def parts():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.Split("x", "merged_with_next"), pre_tokenizers.FixedLength(length=6),
    ])
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer.post_processor = processors.RobertaProcessing(("<s>", 2), ("<unk>", 0), add_prefix_space=False)
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=700, limit_alphabet=150, end_of_word_suffix="</w>", special_tokens=["<unk>", "</s>", "<s>"], show_progress=False))
    return backend(tokenizer, unk_token="<unk>")


def words():
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Metaspace(prepend_scheme="first")])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.Sequence([processors.BertProcessing(("<s>", 1), ("<unk>", 0))])
    tokenizer.train_from_iterator(CORPUS, trainers.WordLevelTrainer(vocab_size=400, special_tokens=["<unk>", "<s>"], show_progress=False))
    return backend(tokenizer, unk_token="<unk>")


def variant(base, change):
    return base, change


VARIANTS = {
    "llama-no-bos": ("llama", lambda it: setattr(it, "add_bos_token", False)),
    "llama-eos": ("llama", lambda it: (setattr(it, "add_bos_token", True), setattr(it, "add_eos_token", True))),
    "llama-flags": ("llama", lambda it: it.add_tokens(FLAGS)),
    "llama-prepend-flags": ("llama-prepend", lambda it: it.add_tokens(FLAGS)),
    "gemma-flags": ("gemma", lambda it: it.add_tokens(FLAGS)),
    "t5-flags": ("t5", lambda it: it.add_tokens(FLAGS)),
    "xlm-roberta-flags": ("xlm-roberta", lambda it: it.add_tokens(FLAGS)),
    "bert-flags": ("bert", lambda it: it.add_tokens(FLAGS)),
    "gpt-2-flags": ("gpt-2", lambda it: it.add_tokens(FLAGS)),
    "gpt-2-bos": ("gpt-2", lambda it: (setattr(it, "add_bos_token", True), setattr(it, "add_eos_token", True))),
    "qwen2-flags": ("qwen2", lambda it: it.add_tokens(FLAGS)),
    "llama-3-no-bos": ("llama-3", lambda it: (setattr(it, "add_bos_token", False))),
}


def crc(text):
    return f"{zlib.crc32(text.encode()):08x}"


def saved(tokenizer, place, config, spare=0):
    tokenizer.save_pretrained(place)
    files = {name: json.loads((place / name).read_text(encoding="utf-8")) for name in ("tokenizer.json", "tokenizer_config.json")}
    for name in ("is_local", "local_files_only", "vocab_file", "name_or_path"):
        files["tokenizer_config.json"].pop(name, None)
    files["config.json"] = {**LLAMA, **config, "vocab_size": len(tokenizer) + spare}
    for name, content in files.items():
        (place / name).write_text(json.dumps(content), encoding="utf-8")
    return files


def recorded(place):
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    added = chosen(tokenizer.get_added_tokens_decoder())
    texts = [with_added(line, added) for line in TEXTS]
    ids = [tokenizer.encode(text).ids for text in texts]
    auto = AutoTokenizer.from_pretrained(place)
    differ = sum(auto.encode(text) != found for text, found in zip(texts, ids))
    decoded = [tokenizer.decode(found, skip_special_tokens=False) for found in ids]
    return dict(added=added, auto=differ, first=ids[0], ids=[crc(",".join(map(str, found))) for found in ids], decoded=[crc(text) for text in decoded])


def changed(files, base):
    """The members that differ from those of the base."""
    return {
        name: {member: value for member, value in content.items() if base[name].get(member) != value} | {member: None for member in base[name] if member not in content}
        for name, content in files.items()
    }


def write(name, case):
    lines = [f" {json.dumps(member)}: {json.dumps(value, ensure_ascii=False)}" for member, value in case.items()]
    (OUT / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(name, "auto", case["auto"], case["first"][:8], flush=True)


def main():
    wanted = sys.argv[2:]
    bases = {}
    for name, make in KINDS.items():
        users = [user for user, (base, _) in VARIANTS.items() if base == name]
        if wanted and name not in wanted and not set(users) & set(wanted):
            continue
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            tokenizer, config = make(Path(first))
            spare = 3 if name in ("llama", "qwen2") else 0
            files = bases[name] = saved(tokenizer, Path(second), config, spare)
            write(name, {"files": files} | recorded(Path(second)))
            for user in users:
                with tempfile.TemporaryDirectory() as third:
                    loaded = AutoTokenizer.from_pretrained(second)
                    VARIANTS[user][1](loaded)
                    write(user, {"base": name, "files": changed(saved(loaded, Path(third), config, spare), files)} | recorded(Path(third)))


main()

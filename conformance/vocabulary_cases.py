"""Vocabularies that are made alone: small tokenizers of every kind, with the `[vocabulary]` of a description that has the kind.

`vocabularies.py` imports this and gives itself to `cases`.
"""

import base64
import io
import tempfile

import gguf
import sentencepiece
import tokenizers
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from sentencepiece import sentencepiece_model_pb2

BASE = dict(num_hidden_layers=1, hidden_size=64, intermediate_size=64, num_attention_heads=4, max_position_embeddings=64, rms_norm_eps=1e-5)
TEXT = """Once upon a time there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball. She wanted to play
with it, but it was too high. Lily's mom said, "Lily, let's go to the park." Lily was sad and didn't know what to do. She asked her mom, "Can we go now?"
"""


def config(name, **more):
    return BASE | dict(architectures=[name]) | more


def trained(**options):
    """A SentencePiece model of the text, as hexadecimal digits."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT.splitlines()), model_writer=model, num_threads=1, **options)
    return model.getvalue().hex()


def word_pieces(tool, words):
    """What the check text needs of the vocabulary of a BERT, with its IDs."""
    tokens = gguf.GGUFReader(tool.LLAMA_CPP / "models/ggml-vocab-bert-bge.gguf").get_field("tokenizer.ggml.tokens").contents()
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    text = tool.CHECK.lower()
    found = {}
    for id, token in enumerate(tokens):
        start = token.startswith("\u2581")
        plain = token.removeprefix("\u2581")
        if token in special:
            found[token] = id
        elif plain in text or plain in words:
            found[plain if start else "##" + plain] = id
    return found


def word_piece_cases(tool):
    vocab = word_pieces(tool, ["old"])
    added = [tool.token(vocab[each], each) for each in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] + [tool.token(30522, "new . ##token", special=False, normalized=False),
             tool.token(30523, "##plain", special=False)]
    vocabulary = """kinds = ["wordpiece"]
[keys_before]
"tokenizer.ggml.token_type_count" = { type = "u32", value = 2 }
"""
    normalizer = dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=False)
    yield "wordpiece", {
        "vocabulary": vocabulary,
        "config.json": config("BertModel", vocab_size=30524, pad_token_id=0, type_vocab_size=2),
        "tokenizer_config.json": dict(tokenizer_class="BertTokenizer", do_lower_case=True, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]",
                                      mask_token="[MASK]", added_tokens_decoder=tool.decoder_of(added)),
        "tokenizer.json": dict(
            version="1.0", truncation=None, padding=None, added_tokens=added[:5], normalizer=normalizer, pre_tokenizer=dict(type="BertPreTokenizer"),
            post_processor=tool.template(["[CLS]", "A", "[SEP]"], ["[CLS]", "A", "[SEP]", "B", "[SEP]"], **{"[CLS]": 101, "[SEP]": 102}),
            decoder=dict(type="WordPiece", prefix="##", cleanup=True),
            model=dict(type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100, vocab=vocab)),
    }
    # A line for every ID: those that the check text does not need are empty.
    yield "wordpiece-lines", {
        "vocabulary": vocabulary.replace("value = 2", "value = 1"),
        "config.json": config("BertModel", vocab_size=30522, pad_token_id=0),
        "tokenizer_config.json": dict(tokenizer_class="BertTokenizer"),
        "vocab.txt (lines)": {id: token for token, id in vocab.items()},
    }


def unigram_cases(tool):
    unigram = dict(model_type="unigram", vocab_size=60, hard_vocab_limit=False, byte_fallback=False)
    t5 = config("T5ForConditionalGeneration", num_layers=1)
    yield "unigram", {
        "vocabulary": "kinds = [\"unigram\", \"sentencepiece\"]",
        "config.json": t5 | dict(vocab_size=70, pad_token_id=0, eos_token_id=1),
        "spiece.model (hex)": trained(normalization_rule_name="identity", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, user_defined_symbols=["<x>"], **unigram),
        "added_tokens.json": {"<extra_0>": 65, "<far>": 99},
        "tokenizer_config.json": dict(eos_token="</s>", pad_token="<pad>", chat_template="none"),
    }
    yield "unigram-merges", {
        "vocabulary": "kinds = [\"unigram\", \"sentencepiece\"]",
        "config.json": t5 | dict(pad_token_id=0),
        "tokenizer.model": tool.MODEL,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write("41\t61\n4C\t6C\n")
        rules.flush()
        mapped = trained(normalization_rule_tsv=rules.name, remove_extra_whitespaces=False, add_dummy_prefix=False, **unigram)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(bytes.fromhex(mapped))
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    fairseq = "kinds = [\"fairseq-unigram\"]"
    yield "fairseq-unigram", {
        "vocabulary": fairseq,
        "config.json": config("XLMRobertaModel", vocab_size=64, bos_token_id=0, pad_token_id=1, eos_token_id=2, type_vocab_size=1, position_offset=None),
        "sentencepiece.bpe.model (hex)": mapped,
        "tokenizer_config.json": dict(tokenizer_class="XLMRobertaTokenizer", mask_token="<mask>"),
    }
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0123456789), ("a", -3.5), ("b", -4.0), ("\u2581ab", -1e-7), ("<mask>", 0.0)]
    added = [tool.token(id, pieces[id][0]) for id in (0, 1, 2, 3)] + [tool.token(8, "<mask>", lstrip=True), tool.token(6, "b", special=False)]
    yield "fairseq-unigram-json", {
        "vocabulary": fairseq,
        "config.json": config("XLMRobertaModel", vocab_size=11, bos_token_id=0, pad_token_id=1, eos_token_id=2, type_vocab_size=2),
        "tokenizer_config.json": dict(tokenizer_class="XLMRobertaTokenizer", unk_token="<unk>", clean_up_tokenization_spaces=True, add_prefix_space=True,
                                      cls_token="<s>", sep_token="</s>", added_tokens_decoder=tool.decoder_of(added)),
        "tokenizer.json": dict(
            version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=dict(type="Precompiled", precompiled_charsmap=charsmap),
            pre_tokenizer=dict(type="Metaspace", replacement="\u2581", prepend_scheme="always", split=True),
            post_processor=tool.template(["<s>", "A", "</s>"], ["<s>", "A", "</s>", "</s>", "B", "</s>"], **{"<s>": 0, "</s>": 2}),
            decoder=dict(type="Metaspace", replacement="\u2581", prepend_scheme="always", split=True),
            model=dict(type="Unigram", unk_id=3, vocab=pieces, byte_fallback=False)),
    }


def special_cases(tool):
    """Byte-level vocabularies whose special tokens the reference knows, or whose added tokens it takes otherwise."""
    vocab, merges, tokens = tool.sparse("gpt-2")

    def files(name, texts, more=None, **options):
        added = [tool.token(50256, "<|endoftext|>", normalized=True)]
        added += [tool.token(50257 + number, text, special=text.startswith("<|") or text.startswith("["), normalized=False) for number, text in enumerate(texts)]
        return {
            "config.json": config(name, vocab_size=50300, head_dim=16, hidden_act="silu") | (more or {}),
            "tokenizer_config.json": dict(tokenizer_class="PreTrainedTokenizerFast", added_tokens_decoder=tool.decoder_of(added)) | options,
            "tokenizer.json": tool.bpe(vocab | {each["content"]: each["id"] for each in added}, merges, tool.byte_level(True), added, post_processor=tool.byte_level(True, trim_offsets=False)),
        }

    def special(word, **tokens):
        entries = ", ".join(f"{role} = {tool.json.dumps(token)}" for role, token in tokens.items())
        return f"{word} = {{ {entries} }}\n"

    kinds = "kinds = [\"bpe\"]\n"
    chat = ["[MASK]", "[gMASK]", "<|user|>", "<|observation|>", "\u2581x y"]
    yield "special-tokens", {
        "vocabulary": kinds + special("special_tokens", bos="[gMASK]", eot="<|user|>", unk="<|endoftext|>", eom="<|observation|>"),
        **files("Glm4MoeForCausalLM", chat, dict(eos_token_id=[1, 2], pad_token_id=50256), eos_token="<|endoftext|>"),
    }
    yield "special-tokens-edge", {
        "vocabulary": kinds + special("special_tokens", eos="<|endoftext|>", eot="<|user|>", unk="<|endoftext|>", bos="<|endoftext|>"),
        **files("Glm4ForCausalLM", chat, dict(bos_token_id=7)),
    }
    yield "special-tokens-by-id", {
        "vocabulary": kinds + "added_tokens = \"decoded\"\n" + special("special_tokens", bos=151643),
        **files("InternS1ForConditionalGeneration", chat, dict(text_config=dict(architectures=["Qwen3ForCausalLM"]))),
    }
    yield "special-tokens-last", {
        "vocabulary": kinds + special("last_special_tokens", bos="<|im_end|>", eos="<|im_end|>"),
        **files("Qwen3OmniMoeForConditionalGeneration", ["<|im_end|>"], dict(thinker_config=dict(text_config=BASE), eos_token_id=50256, num_experts=2), chat_template="{{ x }}"),
    }
    yield "added-tokens-plain", {
        "vocabulary": kinds + "added_tokens = \"plain\"",
        **files("LLaDAMoEModel" if False else "DreamModel", chat + ["<|looks|>", "\u0120a ."], clean_up_tokenization_spaces=True),
    }
    yield "forced-control", {
        "vocabulary": kinds + "control = [\"</assistant>\"]\ntemplate = \"file-first\"\n" + special("replaced_special_tokens", eot=50258).replace("replaced", "last"),
        **files("LagunaForCausalLM", ["</assistant>", "<think>"], dict(eos_token_id=[2, 50258], bos_token_id=2, num_experts=2), chat_template="included"),
        "chat_template.jinja": "{{ messages }}",
    }
    yield "space-prefix-and-padding", {
        "vocabulary": kinds + "size = \"(50300 + 15) / 16 * 16 - 11\"\n".replace("(50300 + 15) / 16 * 16 - 11", "50304"),
        **files("Mamba2ForCausalLM", chat, dict(state_size=4, n_groups=1, num_heads=4, conv_kernel=4, expand=2)),
    }


def character_cases(tool):
    letters = {each: number for number, each in enumerate(["<pad>", "<eos>", "<bos>", "<unk>", "<|channel>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "b", "ab", "\u2581ab", "\n"])}
    added = [tool.token(id, text) for text, id in list(letters.items())[:5]] + [tool.token(267, "<|x|>"), tool.token(268, "<channel|>"), tool.token(269, "own", special=False)]
    yield "character-bpe", {
        "vocabulary": """kinds = ["character-bpe"]
user_defined = ["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\\"|>"]
[keys]
"tokenizer.ggml.add_space_prefix" = { type = "bool", value = false }
"tokenizer.ggml.add_bos_token" = { type = "bool", value = true }
""",
        "config.json": config("Gemma4ForCausalLM", vocab_size=270, bos_token_id=2, eos_token_id=[1, 106], pad_token_id=0),
        "tokenizer_config.json": dict(tokenizer_class="GemmaTokenizer", bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>", extra_special_tokens=dict(c="<|channel>", d="<channel|>"),
                                      added_tokens_decoder=tool.decoder_of(added)),
        "chat_template.jinja": "{{ messages }}",
        "tokenizer.json": tool.bpe(letters, ["a b", "\u2581 ab", "\n \u2581"][:2], tool.split(" ", "MergedWithPrevious", "String"), added, pairs=True,
                                   byte_fallback=True, unk_token="<unk>", fuse_unk=True, normalizer=dict(type="Replace", pattern=dict(String=" "), content="\u2581"),
                                   decoder=dict(type="Sequence", decoders=[dict(type="Replace", pattern=dict(String="\u2581"), content=" "), dict(type="ByteFallback"), dict(type="Fuse")]),
                                   post_processor=tool.template(["<bos>", "A"], ["<bos>", "A", "<bos>", "B"], **{"<bos>": 2})),
    }


def piece_cases(tool):
    """What checkpoints add to the pieces of a SentencePiece model, and how."""
    plain = dict(tokenizer_class="LlamaTokenizer", bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_prefix_space=False, add_bos_token=True)
    added = [tool.token(0, "<unk>"), tool.token(1, "<s>"), tool.token(2, "</s>"), tool.token(513, "<|im_end|>"), tool.token(515, "\u2581a", special=False), tool.token(516, "<|user|>", special=False)]
    files = {
        "config.json": BASE | dict(vocab_size=520, bos_token_id=1, eos_token_id=2),
        "tokenizer.model": tool.MODEL,
        "added_tokens.json": {"<a>": 512, "<b>": 514},
        "tokenizer_config.json": plain | dict(added_tokens_decoder=tool.decoder_of(added)),
        "tokenizer.json": dict(added_tokens=[*added, tool.token(517, "<|listed|>"), tool.token(518, "listed", special=False)]),
    }

    def of(name, **more):
        return files | {"config.json": files["config.json"] | dict(architectures=[name]) | more}

    kinds = "kinds = [\"sentencepiece\"]\n"
    yield "pieces-listed", {
        "vocabulary": kinds + "added_tokens = \"plain\"\n[pieces]\nadded = [\"added_tokens.json\", \"tokenizer_config.json\", \"tokenizer.json\"]",
        **of("Phi3ForCausalLM", original_max_position_embeddings=64, rope_theta=1.0),
    }
    yield "pieces-redefined", {
        "vocabulary": kinds + "added_tokens = \"plain\"\n[pieces]\nadded = [\"tokenizer_config.json\"]\nadded_score = -10000.0\nspecial_score = 0.0",
        **of("ArcticForCausalLM"),
    }
    appended = of("InternLM2ForCausalLM", vocab_size=64, rope_theta=1.0)
    own = trained(model_type="bpe", vocab_size=64, normalization_rule_name="identity", character_coverage=1.0, user_defined_symbols=["@", "[UNUSED_TOKEN_1]"])
    late = [tool.token(0, "<unk>"), tool.token(64, "<|im_end|>"), tool.token(65, "<late>", special=False)]
    del appended["tokenizer.model"]
    yield "pieces-appended", {
        "vocabulary": kinds + "added_tokens = \"plain\"\n" + "replaced_special_tokens = { eos = \"<|im_end|>\" }\n[pieces]\nadded = [\"added_tokens.json\", \"tokenizer_config.json\", \"tokenizer.json\"]\nappended = true\nunused_prefix = \"[UNUSED\"\ndummy_prefix = true",
        **appended, "tokenizer.model (hex)": own, "added_tokens.json": {"<b>": 65, "<a>": 64},
        "tokenizer_config.json": plain | dict(added_tokens_decoder=tool.decoder_of(late)), "tokenizer.json": dict(added_tokens=late[:2]),
    }
    yield "pieces-replaced-eos", {
        "vocabulary": kinds + "space_prefix = \"after-tokens\"\nreplaced_special_tokens = { eos = \"<|im_end|>\" }",
        **of("InternLM3ForCausalLM", rope_theta=1.0),
    }
    yield "pieces-space-prefix-last", {"vocabulary": kinds + "space_prefix = \"last\"", **of("PanguEmbeddedForCausalLM")}
    yield "pieces-full-size", {
        "vocabulary": "kinds = [\"sentencepiece\", \"bpe\"]\nsize = \"521\"\n[by_kind.sentencepiece.keys]\n\"tokenizer.ggml.add_space_prefix\" = { type = \"bool\", value = false }",
        **of("Gemma3nForCausalLM", vocab_size=521, vocab_size_per_layer_input=512, altup_num_inputs=4),
    }


CODE = """import base64
from transformers import PreTrainedTokenizer


class RankTokenizer(PreTrainedTokenizer):
    vocab_files_names = {"vocab_file": "FILE"}

    def __init__(self, vocab_file, named, checked, size, **options):
        lines = open(vocab_file, "rb").read().splitlines()
        self.mergeable_ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
        self.special_tokens, self.checked, self.size = named, checked, size
        super().__init__(**options)

    @property
    def vocab_size(self):
        return self.size

    def get_vocab(self):
        return {str(token): rank for token, rank in self.mergeable_ranks.items()} | self.special_tokens

    def encode(self, text, **options):
        return self.checked
"""


def rank_cases(tool):
    """Rank files, with code that does what that of such checkpoints does, as far as the reference needs it."""
    vocab, merges, _ = tool.sparse("qwen2")
    byte_of = {character: byte for byte, character in tool.byte_alphabet().items()}
    lines = "".join(f"{base64.b64encode(bytes(byte_of[each] for each in token)).decode()} {id}\n" for token, id in vocab.items())
    fast = tool.bpe(vocab, merges, tool.sequence(tool.split(tool.QWEN2), tool.byte_level(False)), [], normalizer=dict(type="NFC"))
    checked = tokenizers.Tokenizer.from_str(tool.json.dumps(fast)).encode(tool.CHECK).ids
    first = max(vocab.values()) + 1

    def files(name, file, special, size, **more):
        named = {text: first + number for number, text in enumerate(special)}
        return {
            "config.json": config(name, vocab_size=size, **more),
            "tokenizer_config.json": dict(tokenizer_class="RankTokenizer", auto_map=dict(AutoTokenizer=["tokenization_ranks.RankTokenizer", None]), named=named, checked=checked, size=size),
            "tokenization_ranks.py": CODE.replace("FILE", file), file: lines,
        }

    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{number}|>" for number in range(3))]
    vocabulary = """kinds = ["ranks"]
pre = "qwen2"
special_tokens_if_none = { bos = "<|endoftext|>", eos = "<|endoftext|>" }
special_tokens = { unk = "<|endoftext|>" }
[ranks]
file = "qwen.tiktoken"
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|extra_{0..3}|>"]
"""
    yield "ranks", {"vocabulary": vocabulary, **files("QWenLMHeadModel", "qwen.tiktoken", qwen, first + 9)}
    yield "ranks-with-ids", {"vocabulary": vocabulary, **files("QWenLMHeadModel", "qwen.tiktoken", qwen, first + 6, eos_token_id=5)}
    other = ["<|startoftext|>", "<|endoftext|>"]
    yield "ranks-other", {
        "vocabulary": """kinds = ["bpe", "ranks"]
pre = "qwen2"
[ranks]
file = "hy.tiktoken"
special = ["<|startoftext|>", "<|endoftext|>"]
[by_kind.ranks.keys]
"tokenizer.ggml.bos_token_id" = { type = "u32", value = 127959 }
""",
        **files("HunYuanMoEV1ForCausalLM", "hy.tiktoken", other, first + 2, bos_token_id=1, eos_token_id=first),
    }


def tekken_cases(tool):
    """Mistral's own tokenizers. The description says the same as the one of LLaMA."""
    words = [bytes([byte]) for byte in range(256)] + [b"ab", b"bc", b"abc", "\u00e9".encode(), b"  ", b"    ", b"   "]
    def tekken(version, special=24, cut=0, **more):
        listed = [dict(rank=rank, token_bytes=base64.b64encode(word).decode(), token_str=None) for rank, word in enumerate(words)]
        return dict(config=dict(pattern=r"\\s+|\\S+".replace("\\\\", "\\"), num_vocab_tokens=len(words), default_vocab_size=special + len(words) - cut, default_num_special_tokens=special, version=version),
                    vocab=listed) | more
    named = [str(each["token_str"]) for each in Tekkenizer.DEPRECATED_SPECIAL_TOKENS] + ["[ARGS]", "[CALL_ID]"]
    special = [dict(rank=rank, token_str=text, is_control=True) for rank, text in enumerate(named)]
    vocabulary = "kinds = [\"tekken\", \"bpe\"]"
    for version, content in (("v3", tekken("v3", cut=2)), ("v7", tekken("v7", special=20)), ("v11", tekken("v11", special=24, special_tokens=special)), ("v13", tekken("v13", special=22, special_tokens=special))):
        yield f"tekken-{version}", {
            "vocabulary": vocabulary, "config.json": config("MistralForCausalLM", vocab_size=300, head_dim=16, bos_token_id=1), "tekken.json": content,
        }


def builtin_cases(tool):
    yield "builtin-bytes", {
        "vocabulary": "kinds = [\"bpe\", \"sentencepiece\", \"builtin\"]\nbuiltin = \"gpt-neox\"\nsize = \"50280\"",
        "config.json": config("MambaForCausalLM", vocab_size=50277, state_size=4),
    }
    yield "builtin-pieces", {
        "vocabulary": "kinds = [\"sentencepiece\", \"builtin\"]\nbuiltin = \"llama-spm\"",
        "config.json": config("OpenELMForCausalLM", vocab_size=32000, num_transformer_layers=1, model_dim=64, num_kv_heads=[1], num_query_heads=[1], ffn_multipliers=[1.0], ffn_dim_divisor=8),
    }


def world_cases(tool):
    words = [bytes([byte]) for byte in range(256)] + ["\n\n", "he's", "say \"it's\"", "\\", "\t x", "\u00e9\u4e2d", b"\xe4\xb8", "a\u0085b", "\U0001f600 "]
    lines = []
    for id, word in enumerate(words, 1):
        # As the published file: text where it is text.
        raw = word.encode() if isinstance(word, str) else word
        try:
            shown = repr(raw.decode())
        except UnicodeDecodeError:
            shown = repr(raw)
        lines.append(f"{id} {shown} {len(raw)}\n")
    world = "kinds = [\"world\"]\nspecial_tokens = { eot = 261 }\nreplaced_special_tokens = { bos = 0, eos = 0 }\nbuiltin_template = \"llama-cpp-rwkv-world\""
    yield "world", {
        "vocabulary": world, "config.json": config("Rwkv6ForCausalLM", vocab_size=270, pad_token_id=3, eos_token_id=5), "rwkv_vocab_v20230424.txt": "".join(lines),
    }
    yield "world-template", {
        "vocabulary": world, "config.json": config("RWKV7ForCausalLM", vocab_size=266), "rwkv_vocab_v20230424.txt": "".join(lines),
        "tokenizer_config.json": dict(chat_template="{{ own }}", add_bos_token=True),
    }


def jsonl_cases(tool):
    lines = [["<|plamo:unk|>", 0.0, "UNKNOWN"], ["<|plamo:bos|>", 0, "CONTROL"], ["<|plamo:eos|>", 0.0, "CONTROL"], ["<|plamo:op|>", 0.0, "NORMAL", None], ["<0x0A>", -1.5, "BYTE"],
             ["\u2581\u3053", -7.123456789, "NORMAL", "x", 1], ["short", -3.25]]
    yield "jsonl", {
        "vocabulary": """kinds = ["jsonl"]
[keys]
"tokenizer.ggml.eot_token_id" = { type = "u32", value = 4 }
"tokenizer.ggml.add_space_prefix" = { type = "bool", value = false }
""",
        "config.json": config("Plamo2ForCausalLM", vocab_size=9),
        "tokenizer_config.json": dict(bos_token="<|plamo:bos|>", eos_token="<|plamo:eos|>", unk_token="<|plamo:unk|>", pad_token=None, sep_token="short", chat_template="left out"),
        "tokenizer.jsonl": "".join(tool.json.dumps(line, ensure_ascii=False) + "\n" for line in lines) + "\n",
    }


def cases(tool):
    yield from word_piece_cases(tool)
    yield from unigram_cases(tool)
    yield from special_cases(tool)
    yield from character_cases(tool)
    yield from piece_cases(tool)
    yield from rank_cases(tool)
    yield from tekken_cases(tool)
    yield from builtin_cases(tool)
    yield from world_cases(tool)
    yield from jsonl_cases(tool)

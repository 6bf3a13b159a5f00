"""Vocabularies to compare tokenizers on that no file at hand has, written as GGUF files that libllama loads.

`models(llama_cpp, data)` gives the name and the bytes of each:

- the GPT-2 vocabulary under every name of a pre-tokenizer that llama.cpp knows (`pre-NAME`): how a text is cut does not depend on the vocabulary;
- vocabularies of models without a file in llama.cpp: RWKV World (from the list in `data`), a T5 of SentencePiece with its character map, PLaMo-2,
  whitespace and hybrid DNA (made here);
- variants of flags; and `small-…`, a small vocabulary of each model, whose results are committed.
"""

import re
import struct
from ast import literal_eval

from tokenization_texts import WORDS, Numbers

STRING, ARRAY, U32, I32, F32, BOOL, U8 = 8, 9, 4, 5, 6, 7, 0
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MARKER = "\ue000"


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def encoded(value):
    """The type and the bytes of a metadata value."""
    match value:
        case bool():
            return struct.pack("<IB", BOOL, value)
        case str():
            return struct.pack("<I", STRING) + string(value)
        case int():
            return struct.pack("<II", U32, value)
        case bytes():
            return struct.pack("<IIQ", ARRAY, U8, len(value)) + value
        case [str() | bytes(), *_] | []:
            return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(string, value))
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", ARRAY, I32, len(value), *value)
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(value)}f", ARRAY, F32, len(value), *value)
    raise TypeError(value)


def gguf(**metadata):
    """A file of version 3 without tensors. `__` in a name is a dot."""
    entries = {"general.architecture": "llama"} | {f"tokenizer.ggml.{name}".replace("tokenizer.ggml.general__", "general."): value for name, value in metadata.items()}
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    for key, value in entries.items():
        data += string(key.replace("__", ".")) + encoded(value)
    return data + bytes(-len(data) % 32)


def changed(data, **metadata):
    """The file with other strings, or with more entries. It has no tensors."""
    for name, value in metadata.items():
        key = string(f"tokenizer.ggml.{name}".replace("__", "."))
        at = data.find(key)
        if at >= 0:
            at += len(key)
            kind, length = struct.unpack_from("<IQ", data, at)
            old = 12 + length if kind == STRING else {BOOL: 5, U32: 8}[kind]
            data = data[:at] + encoded(value) + data[at + old:]
        else:
            (count,) = struct.unpack_from("<Q", data, 16)
            tail = end(data)
            data = data[:16] + struct.pack("<Q", count + 1) + data[24:tail] + key + encoded(value)
    return data + bytes(-len(data) % 32)


def end(data):
    """Where the metadata ends."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    (count,) = struct.unpack_from("<Q", data, 16)
    at = 24

    def skip(kind, at):
        if kind == STRING:
            return at + 8 + struct.unpack_from("<Q", data, at)[0]
        if kind == ARRAY:
            kind, length = struct.unpack_from("<IQ", data, at)
            at += 12
            if kind != STRING:
                return at + length * sizes[kind]
            for _ in range(length):
                at = skip(STRING, at)
            return at
        return at + sizes[kind]

    for _ in range(count):
        at = skip(STRING, at)
        at = skip(struct.unpack_from("<I", data, at)[0], at + 4)
    return at


def pre_names(llama_cpp):
    """The names of pre-tokenizers, in the order of the source."""
    source = (llama_cpp / "src/llama-vocab.cpp").read_text(encoding="utf-8")
    return list(dict.fromkeys(re.findall(r'tokenizer_pre\s*==\s*"([^"]+)"', source)))


def messages(data):
    """The fields of a protocol buffer: number and value."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            length = varint() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
            value = data[at:at + length]
            at += length
        yield key >> 3, value


def sentencepiece(path):
    """Texts, scores, types and the character map of a model of SentencePiece."""
    tokens, scores, types, charsmap = [], [], [], b""
    for number, value in messages(path.read_bytes()):
        if number == 1:
            piece = dict(messages(value))
            tokens.append(piece[1].decode())
            scores.append(struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0)
            types.append(piece.get(3, NORMAL))
        elif number == 3:
            charsmap = dict(messages(value)).get(2, b"")
    return tokens, scores, types, charsmap


def rwkv(path):
    """The tokens as llama.cpp's converter writes them: escaped."""
    tokens, types = ["<s>"], [CONTROL]
    for line in path.read_text(encoding="utf-8").splitlines():
        text = literal_eval(line[line.index(" "):line.rindex(" ")].strip())
        data = text.encode() if isinstance(text, str) else text
        tokens.append(escaped(data))
        types.append(NORMAL)
    while len(tokens) < 65536:
        tokens.append(f"[PAD{len(tokens)}]")
        types.append(UNUSED)
    return tokens, types


def escaped(data):
    return repr(data)[2:-1].replace("\\'", "'") if b"\\" not in data else "".join(f"\\x{byte:02x}" for byte in data)


def byte_tokens():
    return [f"<0x{byte:02X}>" for byte in range(256)]


def pieces(numbers, count, longest, mark="▁"):
    """Parts of words, each once, every character of them among the first."""
    words = [mark + word for each in WORDS.values() for word in each] + ["the", mark + "a", "ing", mark + "of", mark + "and", "er", "on", mark + "t", "ed"]
    found = dict.fromkeys(sorted({char for word in words[::2] for char in word}))
    while len(found) < count:
        word = numbers.of(words)
        start = numbers.next(len(word))
        found.setdefault(word[start:start + 1 + numbers.next(longest)])
    return list(found)


def small_spm():
    numbers = Numbers(1)
    words = pieces(numbers, 900, 8)
    tokens = ["<unk>", "<s>", "</s>", *byte_tokens(), "<|im_start|>", "<|im_end|>", "<unused7>", *words]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, CONTROL, USER_DEFINED, UNUSED, *[NORMAL] * len(words)]
    # Some scores occur more than once, so that the order of equal ones is tried too.
    scores = [0.0] * (len(tokens) - len(words)) + [-float(numbers.next(300)) / 4 for _ in words]
    return gguf(model="llama", tokens=tokens, scores=scores, token_type=types, bos_token_id=1, eos_token_id=2, unknown_token_id=0)


def small_wpm():
    numbers = Numbers(2)
    words = pieces(numbers, 700, 7, mark="")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    lower = dict.fromkeys(f"▁{word.lower()}" for word in words)
    inner = dict.fromkeys(word.lower() for word in words if len(word) < 5)
    tokens += [text for text in [*lower, *inner] if text]
    types = [CONTROL] * 5 + [NORMAL] * (len(tokens) - 5)
    return gguf(model="bert", tokens=tokens, token_type=types, bos_token_id=2, eos_token_id=3, unknown_token_id=1, seperator_token_id=3, padding_token_id=0, mask_token_id=4)


def charsmap(replacements):
    """A double array, compressed by XOR, of replacements, as SentencePiece writes it."""
    offsets, blob = {}, b""
    trie = {}
    for source, target in replacements.items():
        offsets[source] = len(blob)
        blob += target.encode() + b"\0"
        node = trie
        for byte in source.encode():
            node = node.setdefault(byte, {})
        node[0] = offsets[source]
    units, used, offsets_taken = {0: 0}, {0}, set()

    def place(index, node):
        # Children are at (index ^ offset) ^ label; no two nodes share a base, as a label alone names the parent.
        offset = next(
            each for each in range(1, 1 << 21)
            if index ^ each not in offsets_taken and all((index ^ each ^ label) not in used for label in node)
        )
        base = index ^ offset
        offsets_taken.add(base)
        used.update(base ^ label for label in node)
        units[index] |= offset << 10 | (0 in node) << 8
        for label, child in node.items():
            units[base ^ label] = label if label else 1 << 31 | child
        for label, child in node.items():
            if label:
                place(base ^ label, child)

    place(0, trie)
    size = (max(units) // 256 + 1) * 256
    # A unit that is not used has a label that no byte leads to it by.
    array = struct.pack(f"<{size}I", *(units.get(index, 1 << 31) for index in range(size)))
    return struct.pack("<I", len(array)) + array + blob


def small_ugm():
    numbers = Numbers(3)
    words = pieces(numbers, 900, 8)
    tokens = ["<pad>", "</s>", "<unk>", "<extra_id_0>", "<mask>", "<unused1>", *words]
    types = [CONTROL, CONTROL, UNKNOWN, USER_DEFINED, USER_DEFINED, UNUSED, *[NORMAL] * len(words)]
    scores = [0.0] * 6 + [-float(numbers.next(64)) / 4 for _ in words]
    replaced = {"\t": " ", "\n": " ", "\u3000": " ", "\u00a0": " ", "ﬁ": "fi", "é": "e\u0301", "e\u0301\u0323": "X", "Ａ": "A", "①": "1", "\u200b": "", "½": "1⁄2", "İ": "i\u0307", "한": "ㅎㅏㄴ"}
    return gguf(model="t5", tokens=tokens, scores=scores, token_type=types, add_space_prefix=True, remove_extra_whitespaces=True, precompiled_charsmap=charsmap(replaced),
                eos_token_id=1, unknown_token_id=2, padding_token_id=0)


def small_rwkv():
    numbers = Numbers(4)
    found = dict.fromkeys(bytes([byte]) for byte in range(256))
    words = [" " + word for each in WORDS.values() for word in each] + ["the", "\\n", "'s", "\r\n", "\t\t"]
    while len(found) < 1100:
        word = numbers.of(words).encode()
        start = numbers.next(len(word))
        found.setdefault(word[start:start + 1 + numbers.next(9)])
    tokens = ["<s>", *map(escaped, found)]
    return gguf(model="rwkv", tokens=tokens, token_type=[CONTROL] + [NORMAL] * len(found))


def small_plamo2():
    numbers = Numbers(5)
    words = [text for text in pieces(numbers, 1200, 9, mark=" ")]
    tokens = ["<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>", *byte_tokens(), "<|plamo:tag|>", *words]
    types = [UNKNOWN, CONTROL, CONTROL, CONTROL, *[BYTE] * 256, USER_DEFINED, *[NORMAL] * len(words)]
    scores = [0.0] * 261 + [-float(numbers.next(4000)) / 300 for _ in words]
    return gguf(model="plamo2", tokens=tokens, scores=scores, token_type=types, add_bos_token=False, bos_token_id=1, eos_token_id=2, unknown_token_id=0, padding_token_id=3)


def alphabet():
    """GPT-2's characters for bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def merged(numbers, count, symbols):
    """Merges of parts of words, and the tokens they give."""
    tokens, merges = dict.fromkeys(symbols), []
    words = [word for each in WORDS.values() for word in each]
    while len(merges) < count:
        word = "".join(symbols_of(numbers.of(words), symbols))
        split = 1 + numbers.next(len(word)) if len(word) > 1 else 1
        first = word[max(0, split - 1 - numbers.next(4)):split]
        second = word[split:split + 1 + numbers.next(3)]
        if first and second and first in tokens and second in tokens and f"{first} {second}" not in merges:
            merges.append(f"{first} {second}")
            tokens.setdefault(first + second)
    return list(tokens), merges


def symbols_of(word, symbols):
    return [symbols[byte] for byte in (" " + word).encode()] if len(symbols) == 256 else list(word)


def small_bpe(**more):
    tokens, merges = merged(Numbers(6), 700, alphabet())
    tokens += ["<|endoftext|>", "<|user|>"]
    types = [NORMAL] * (len(tokens) - 2) + [CONTROL, USER_DEFINED]
    end_of_text = len(tokens) - 2
    return gguf(**{"model": "gpt2", "pre": "gpt-2", "tokens": tokens, "token_type": types, "merges": merges, "bos_token_id": end_of_text, "eos_token_id": end_of_text} | more)


def small_dna():
    tokens, merges = merged(Numbers(7), 300, alphabet())
    kmers = [a + b + c + d + e + "A" for a in "ACGT" for b in "ACGT" for c in "ACGT" for d in "ACGT" for e in "ACGT"] + ["TTTTTT", "CCCCCC", "ACGTAC", "GTACGT"]
    tokens += ["CCCCCC", "<|endoftext|>", "<dna>", "</dna>", "<oov>", *(kmer + MARKER for kmer in dict.fromkeys(kmers))]
    return gguf(model="hybriddna", pre="qwen2", tokens=tokens, token_type=[NORMAL] * len(tokens), merges=merges)


def small_whitespace():
    numbers = Numbers(8)
    symbols = sorted({char for word in pieces(numbers, 10, 2, mark="") for char in word} | set("abcdefghijklmnopqrstuvwxyz0123456789"))
    tokens, merges = merged(numbers, 400, symbols)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *tokens, *byte_tokens()[:128]]
    types = [CONTROL] * 5 + [NORMAL] * (len(tokens) - 5)
    return gguf(model="whitespace", pre="whitespace", tokens=tokens, token_type=types, merges=merges, bos_token_id=0, eos_token_id=2, unknown_token_id=3, normalizer__lowercase=True)


SMALL = {
    "small-spm": small_spm, "small-wpm": small_wpm, "small-ugm": small_ugm, "small-rwkv": small_rwkv, "small-plamo2": small_plamo2, "small-bpe": small_bpe,
    "small-hybriddna": small_dna, "small-whitespace": small_whitespace,
}


def models(llama_cpp, data):
    """Name and content of each, made when it is asked for."""
    def upstream(name):
        return (llama_cpp / f"models/ggml-vocab-{name}.gguf").read_bytes()

    def t5(**flags):
        tokens, scores, types, charsmap = sentencepiece(data / "tokenizer/kitoken/models/sentencepiece/nai-t5.model")
        return gguf(**{"model": "t5", "tokens": tokens, "scores": scores, "token_type": types, "precompiled_charsmap": charsmap, "add_space_prefix": True,
                       "remove_extra_whitespaces": True, "eos_token_id": 1, "unknown_token_id": 2, "padding_token_id": 0, **flags})

    def world():
        tokens, types = rwkv(data / "tokenizer/rwkv/rwkv_vocab_v20230424.txt")
        return gguf(model="rwkv", tokens=tokens, token_type=types)

    named = {path.name[len("ggml-vocab-"):-len(".gguf")]: lambda path=path: path.read_bytes() for path in sorted((llama_cpp / "models").glob("ggml-vocab-*.gguf"))}
    made = {
        "t5": t5, "rwkv": world,
        "t5-plain": lambda: t5(add_space_prefix=False, remove_extra_whitespaces=False),
        "t5-no-map": lambda: t5(precompiled_charsmap=struct.pack("<I", 0) + b"\0"),
        "llama-spm-no-prefix": lambda: changed(upstream("llama-spm"), add_space_prefix=False, add_eos_token=True),
        "bert-cased": lambda: changed(upstream("bert-bge"), normalizer__lowercase=False),
        "bert-accents": lambda: changed(upstream("bert-bge"), normalizer__strip_accents=False),
        "bert-strip": lambda: changed(changed(upstream("bert-bge"), normalizer__lowercase=False), normalizer__strip_accents=True),
    }
    # `whitespace` leaves spaces in the words of other models than its own, over which the reference stops the process.
    names = {f"pre-{name}": lambda name=name: changed(upstream("gpt-2"), pre=name) for name in pre_names(llama_cpp) if name != "whitespace"}
    return named | made | SMALL | names

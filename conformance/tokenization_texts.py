"""The texts that tokenizers are compared on: thirteen kinds, the same on every run.

Which code points are tried follows from the reference's own tables (`src/unicode-data.cpp` of a llama.cpp source tree): every one below U+3000, both sides of
every place where a property changes, everything with another case or a decomposition, and a sample of the rest.
"""

import re
import struct

MASK = (1 << 64) - 1
# Four-byte forms beyond U+10FFFF: the reference throws an exception through its C interface over these.
BEYOND = re.compile(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")

SPECIAL = (
    "<s> </s> <unk> <pad> <mask> <bos> <eos> <|begin_of_text|> <|end_of_text|> <|eot_id|> <|start_header_id|> <|im_start|> <|im_end|> <|endoftext|> "
    "<|user|> <|assistant|> <|end|> <|system|> [CLS] [SEP] [MASK] [UNK] [PAD] <fim_prefix> <fim_suffix> <fim_middle> <|fim_prefix|> <|file_sep|> "
    "<|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <BOS_TOKEN> <EOP_TOKEN> <start_of_turn> <end_of_turn> <|turn> <turn|> <|channel> <channel|> <|tool> "
    "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜fim▁begin｜> <|EOT|> <0x0A> <0x41> <dna> </dna> <oov> <|plamo:bos|> <|plamo:eos|> <think> </think> "
    "<tool_call> </tool_call> >>TITLE<< >>ABSTRACT<< >>INTRODUCTION<< >>SUFFIX<< <extra_id_0> <extra_id_99> <unused0> <unused99> <reponame> <|im_sep|> "
    "<|placeholder1|> [gMASK] [EMPTY_3] <|object_ref_start|> <image|> <|\"|>"
).split(" ")

WHITESPACE = [" ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2000", "\u2003", "\u200a",
              "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff", "\u180e", "\u2581"]
APOSTROPHES = ["'", "’", "‘", "ʼ", "`", "´", "＇"]
SUFFIXES = ["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "VE", "M", "LL", "D", "Re", "rE", "ſ", "K", "x", "", "sa", "let", "s'", "9", " ", "é", "ﬀ"]
DIGITS = ["0", "7", "12", "123", "1234", "12345", "1234567890", "²", "½", "Ⅷ", "٣", "٣٤٥٦", "１２３４", "一二三", "੧੨", "𝟘𝟙𝟚𝟛", "①②", "1,000", "3.14", "1e10", "0x1F"]
WORDS = {
    "latin": "Hello world the QUICK brown fox jumps naïve café Ångström straße İstanbul ĳsland ǅungla résumé Zażółć coöperate ﬁnance".split(),
    "greek": "Καλημέρα κόσμε ΌΛΑ ἀρχῇ ὁ λόγος ΐ ΰ".split(),
    "cyrillic": "Привет МИР йод ёлка съешь Україна їжак".split(),
    "arabic": "مرحبا بالعالم السَّلامُ عَلَيْكُمْ ۔ ؟ ،".split(),
    "hebrew": "שלום עולם שָׁלוֹם".split(),
    "indic": "नमस्ते दुनिया क्षत्रिय தமிழ் నమస్కారం ગુજરાતી বাংলা ಕನ್ನಡ".split(),
    "thai": "สวัสดีชาวโลก ภาษาไทย ກຣຸງ".split(),
    "han": "你好世界 我想在apple工作1314151天～ 漢字𠀀𪛖 ㇀〇 ，。！".split(),
    "japanese": "こんにちは 世界 カタカナ ｶﾅ ー ゞ 東京タワー".split(),
    "korean": "안녕하세요 세계 한국어 ㄱㄴ 가각갂 힣".split(),
    "emoji": "🦙 👨‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️ 3️⃣ ☃ 🏴󠁧󠁢󠁥󠁮󠁧󠁿".split(),
    "marks": "é ñ̃ ạ̈ q̣̇ Z͑ͫ̓ͪ̂ͫ ⃗v e\u0301\u0323 \u0301x ा ّ".split(),
    "symbols": "€ £5 © ™ ∑ ∀x∈ℝ → ≠ ¬ ± × ÷ ‰ № § ¶ • … — – ‹› «» „“ ‽ ¡ ¿".split(),
    "code": "def f(x): return x**2 if(a&&b){i++;} </div> #include<stdio.h> foo_bar camelCase HTTPServer2 a->b::c //x /*y*/ $HOME @x \\n %d ~/.ssh ;; === <= => ->".split(),
}
PUNCTUATION = [chr(code) for code in range(33, 127) if not chr(code).isalnum()]
DNA = ["ACGTAC", "acgtacgt", "ACG", "NNNNNN", "A", "ACGTACGTACGTAC", "<dna>", "</dna>", "<oov>", "", " ", "TTTTTTx", "é"]


class Numbers:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        value = self.state
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        return (value ^ (value >> 31)) % bound

    def of(self, items):
        return items[self.next(len(items))]


def code_points(llama_cpp):
    """The code points to try."""
    source = (llama_cpp / "src/unicode-data.cpp").read_text(encoding="utf-8")
    numbers = [int(each, 16) for each in re.findall(r"0x([0-9A-Fa-f]{6})\b", source)]
    found = set(range(0x3000)) | set(range(0, 0x110000, 27))
    for number in numbers:
        found |= {number - 1, number, number + 1}
    return sorted(code for code in found if 0 <= code < 0x110000 and not 0xD800 <= code < 0xE000)


def texts(llama_cpp):
    """(kind, bytes) of every text."""
    numbers = Numbers(12)
    codes = [chr(code) for code in code_points(llama_cpp)]
    words = [word for each in WORDS.values() for word in each]

    for char in codes:
        yield "alone", char
    contexts = ["a{}b", " {} ", "1{}2", "'{}'", "{0}{0}", ".{}\n", "\n{}x", "中{}文", "{}9", "A{}"]
    for start in range(0, len(codes), 12):
        yield "context", " ".join(numbers.of(contexts).format(char) for char in codes[start:start + 12])

    for first in WHITESPACE:
        for second in WHITESPACE:
            yield "whitespace", numbers.of(["a", "", "1", "."]) + first + second + numbers.of(["b", "", "2", ","])
    for _ in range(1500):
        yield "whitespace", "".join(numbers.of(WHITESPACE if numbers.next(3) else words + PUNCTUATION) for _ in range(1 + numbers.next(9)))

    for mark in APOSTROPHES:
        for suffix in SUFFIXES:
            for word in ["we", "", " ", "É", "5", "\n", "''"]:
                yield "apostrophes", word + mark + suffix
    for _ in range(500):
        yield "apostrophes", "".join(numbers.of(words) + numbers.of(APOSTROPHES) + numbers.of(SUFFIXES) + numbers.of(["", " "]) for _ in range(4))

    for _ in range(1500):
        yield "digits", "".join(numbers.of(DIGITS if numbers.next(2) else [" ", ",", ".", "", "a", "-", "中"]) for _ in range(1 + numbers.next(8)))
    for length in range(1, 65):
        yield "digits", "9" * length
        yield "digits", "x" + "4" * length + "y"

    for script, of_script in WORDS.items():
        for word in of_script:
            yield "scripts", word
            yield "scripts", " " + word
        for _ in range(60):
            yield "scripts", numbers.of(["", " ", "-"]).join(numbers.of(of_script) for _ in range(1 + numbers.next(6)))
    for _ in range(2500):
        yield "mixed", "".join(numbers.of(words) + numbers.of(["", " ", "", "\n", "  "]) for _ in range(1 + numbers.next(7)))

    for char in PUNCTUATION:
        yield "punctuation", char
        yield "punctuation", f" {char}{char}\n"
        yield "punctuation", f"a{char}b {char}c 1{char}2"
    for _ in range(2500):
        yield "punctuation", "".join(numbers.of(PUNCTUATION if numbers.next(3) else words + [" ", "\n", "\r\n"]) for _ in range(1 + numbers.next(10)))

    for piece in ["a", "A", " ", "\n", "\t", "1", ".", "-", "=", "é", "中", "한", "!?", "ab", " a", "\r\n", " \n", "\n ", "🦙", "́", "\u3000", "▁", "_", "<", "'s", "Aa"]:
        for length in [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 600]:
            yield "runs", piece * length
            yield "runs", "x" + piece * length + "y"

    for name in SPECIAL:
        for form in ["{}", " {} ", "a{}b", "{0}{0}", "{}\n\n x", "\t {}", "{}  \t\ny", name[:-1] + "{}", "{}" + name[1:]]:
            yield "specials", form.format(name)
    for _ in range(2500):
        yield "specials", "".join(numbers.of(SPECIAL if numbers.next(2) else words + WHITESPACE) for _ in range(1 + numbers.next(8)))

    for _ in range(600):
        yield "dna", "".join(numbers.of(DNA) for _ in range(1 + numbers.next(6)))

    for _ in range(3000):
        yield "letters", "".join(numbers.of("abcdeiorstnETAOI .,'\n") for _ in range(1 + numbers.next(40)))

    yield "bytes", ""
    for byte in range(256):
        yield "bytes", bytes([byte])
        yield "bytes", b"a" + bytes([byte]) + b"b"
    forms = [b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x80\x80\x80", b"\xe2\x96", b"\xf0\x9f\xa6", b"\xff\xfe", b"\0", b"a\0b",
             b"\xe2\x96\x81\x81", b"\xc3\x28", b"\xef\xbf\xbd", b"\xf8\x88\x80\x80\x80"]
    for form in forms:
        for before, after in [(b"", b""), (b"a", b"b"), (b" ", b" "), (b"\xe4\xb8\xad", b"\xe4\xb8\xad"), (form, form)]:
            yield "bytes", before + form + after
    for _ in range(1500):
        yield "bytes", bytes(numbers.next(256) for _ in range(1 + numbers.next(12)))
    for _ in range(500):
        whole = "".join(numbers.of(words) for _ in range(3)).encode()
        start = numbers.next(len(whole))
        yield "bytes", whole[start:start + 1 + numbers.next(9)]


def corpus(llama_cpp):
    """Every text as bytes, without the forms that the reference does not survive."""
    for kind, text in texts(llama_cpp):
        text = text if isinstance(text, bytes) else text.encode()
        if not BEYOND.search(text):
            yield kind, text


def joined(llama_cpp, length=400):
    """The same texts in fewer, longer ones: the reference compiles its expressions again for every call, which takes it a millisecond."""
    numbers = Numbers(34)
    part, kind_of_part = b"", None
    for kind, text in corpus(llama_cpp):
        if part and (kind != kind_of_part or len(part) + len(text) > length):
            yield kind_of_part, part
            part = b""
        if part:
            part += numbers.of([b"", b" ", b"\n", b" \n", b"a", b".", b"1"])
            if BEYOND.search(part + text):
                part += b" "
        part, kind_of_part = part + text, kind
    if part:
        yield kind_of_part, part


def write(path, texts):
    """Length and bytes of each text, and the number of texts."""
    count = 0
    with open(path, "wb") as file:
        for text in texts:
            file.write(struct.pack("<I", len(text)) + text)
            count += 1
    return count


def read(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        yield data[at + 4:at + 4 + length]
        at += 4 + length

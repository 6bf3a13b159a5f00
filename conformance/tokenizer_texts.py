"""Writes the texts with which a converted vocabulary is compared with its tokenizer.json.

    python tokenizer_texts.py FILE

FILE is crates/ggmill-tokenizer/data/verification.txt: 500 texts, one a line, with the escapes `\\n`, `\\r`, `\\t`, `\\\\` and `\\u{...}`. `\\0` to `\\9` stand for ten
added tokens of the tokenizer, which the program chooses by their flags. All sentences were written for this file.
"""

import itertools
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "crates/ggmill-tokenizer/data/verification.txt"

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "I can't believe it's not butter; we'll see, they've gone, I'm sure you'd agree.", "Hello, world!",
    "HELLO WORLD", "Once upon a time, there was a little girl named Lily.", "She sells sea shells by the sea shore", "e.g. U.S.A., Ph.D., a.m./p.m., No. 5",
    "state-of-the-art, well-known (or not) [brackets] {braces} <angles>", "“Curly quotes”, ‘single ones’, «guillemets», „low ones“ — and a dash…", "3.14159, 2.71828 and 1,000,000.00",
    "Flight AB1234 leaves at 07:45 on 2024-02-29.", "Call +1 (555) 010-9999 now!!!", "user.name+tag@example.org wrote to https://example.org/a/b?c=d&e=f#g",
    "Supercalifragilisticexpialidocious antidisestablishmentarianism", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abcabcabcabcabcabcabc", "xX_DarkLord_Xx", "camelCaseName snake_case_name kebab-case-name CONSTANT_NAME",
    "don't DON'T Don’t DON’T", "'s 't 're 've 'm 'll 'd 'S 'T 'RE", "what's'up", "naïve café résumé façade jalapeño", "Zażółć gęślą jaźń", "Příliš žluťoučký kůň úpěl ďábelské ódy", "Falsches Üben von Xylophonmusik quält jeden größeren Zwerg. STRASSE Straße",
    "El veloz murciélago hindú comía feliz cardillo y kiwi. ¿Qué? ¡Sí!", "Voix ambiguë d’un cœur qui préfère les jattes de kiwis", "À noite, vovô Kowalsky vê o ímã cair no pé do pinguim", "Quel vituperabile xenofobo zelante assaggia il whisky ed esclama: alleluja!", "Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul ISPARTA ıslak",
    "Съешь же ещё этих мягких французских булок, да выпей чаю", "Жебракують філософи при ґанку церкви в Гадячі", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ", "שלום עולם, מה שלומך היום?", "שָׁלוֹם עֲלֵיכֶם", "مرحبا بالعالم، كيف حالك؟ ١٢٣٤٥", "السَّلامُ عَلَيْكُمْ", "سلام دنیا ۱۲۳۴۵ می‌خواهم",
    "नमस्ते दुनिया, आप कैसे हैं? १२३४५", "ক্ষুধার্ত বাঘ বাংলা ভাষা ৬৭৮", "வணக்கம் உலகம் தமிழ்", "తెలుగు భాష అందమైనది", "ಕನ್ನಡ ಭಾಷೆ", "മലയാളം ഭാഷ", "ไทยภาษาสวัสดีชาวโลก ๑๒๓", "ພາສາລາວ ສະບາຍດີ", "မြန်မာဘာသာ", "ភាសាខ្មែរ សួស្តី", "བོད་སྐད་", "ქართული ენა", "Հայոց լեզու", "አማርኛ ቋንቋ",
    "你好，世界！今天天气很好。", "繁體中文測試：龍龜鬱", "中文English混排123テスト", "こんにちは世界。カタカナとひらがな、漢字。", "ｶﾀｶﾅ ﾊﾝｶｸ ＡＢＣ　１２３", "안녕하세요 세계! 한국어 띄어쓰기.", "한국어 (분해된 자모)", "𠀀𠀁𪚥 rare ideographs", "㍻㌍㌔ ㈱ ① ② Ⅳ ⅷ ½ ¼ ² ³ ™ ℃ ﬁ ﬂ", "e\u0301 o\u0308 n\u0303 A\u030a \u1e9b\u0323 q\u0307\u0323", "é ö ñ Å ṩ", "Z͑ͫ̓a̴l̵g̶o̷ t̸e̢x̡t",
    "😀 😃 😄 😁", "👩‍👩‍👧‍👦 family 👍🏽 skin 🇩🇪🇫🇷 flags", "❤️ ☎️ ✔️ ✈︎", "🏴󠁧󠁢󠁥󠁮󠁧󠁿 tag sequence", "I ❤️ NY 🗽!", "∑ ∫ √ ∞ ≈ ≠ ≤ ≥ ∂ ∇ ∈ ∉", "α β γ δ ε → ← ↑ ↓ ⇒ ⇔", "┌─┐│└┘█▓▒░ ■□▲△◆◇", "♔♕♖♗♘♙ ♠♣♥♦ ♪♫", "$100 €50 £20 ¥3000 ₹75 ₿1 ¢5", "© ® ™ § ¶ † ‡ • ‰", "a\u00a0b no-break space", "a\u2003b\u2009c\u202fd\u205fe spaces", "zero\u200bwidth\u200cjoin\u200ders\u2060 \ufeffbom", "soft\u00adhyphen", "left\u200eto\u200fright\u202amarks\u202c", "ideographic\u3000space", "line\u2028separator\u2029paragraph", "next\u0085line vertical\u000btab form\u000cfeed", "bell\u0007 escape\u001b[0m delete\u007f", "replacement \ufffd character", "private \ue000\uf8ff use", "unassigned \u0378 \U000e0080", "▁already▁escaped▁text", "▁ ▁▁ a▁b", "Ġbyte Ċlevel Ġletters Ã©",
    "<s> </s> <unk> <pad> [CLS] [SEP] [MASK] [PAD] [UNK]", "<|im_start|>user\nHi<|im_end|>\n", "<|endoftext|><|end|> <|user|>", "<0x41> <0x0A> literal bytes", "## heading ##ing ###", "<mask> text<mask> <mask>.", "[INST] <<SYS>> be kind <</SYS>> [/INST]", "<start_of_turn>user\nHi<end_of_turn>", "<|im_start <|im_end| im_end|>",
    "def f(x):\n    return x ** 2 + 1\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\n}\n", "SELECT * FROM t WHERE a >= 10 AND b != 'x';", "<html><body class=\"a\">Hi &amp; bye</body></html>", "{\"key\": [1, 2.5e-3, null, true], \"s\": \"\\u00e9\\n\"}", "x = {'a': 1}; y = x[\"a\"] if x else None  # comment", "#include <stdio.h>\r\nint main(void) { return 0; }\r\n", "git commit -m \"fix: a bug\" && git push --force", "fn main() { println!(\"{:?}\", vec![1u8; 3]); }", "if (a && b || !c) { x |= y << 2; z ^= ~w; }", "\\frac{a}{b} + \\sum_{i=0}^{n} x_i", "/usr/local/bin:/usr/bin C:\\Windows\\System32", "0x1F 0b1010 0o17 1e-10 1_000 .5 5.", "::-->==<=>!=??=>>>|>", "```python\nprint('hi')\n```\n", "- item 1\n- item 2\n  - nested\n\n1. one\n2. two\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "a\tb\tc\n\td\te", "key:\tvalue;;;\n\n\n\nend",
]

WORDS = ["the", "Cat", "sat", "on", "matches", "running", "unhappily", "tokenization", "été", "мир", "世界", "देश", "42", "x1", "it's", "🙂"]
SPACES = [" ", "  ", "   ", "    ", "     ", "        ", "\t", "\t\t", " \t", "\n", "\n\n", "\n\n\n", " \n", "\n ", " \n \n", "\r\n", "\r\n\r\n", "\u00a0", "\u3000", " \u00a0 "]
MARKS = [".", ",", "!", "?", ";", ":", "-", "--", "...", "…", "'", "\"", "(", ")", "[", "]", "{", "}", "/", "\\", "|", "@", "#", "$", "%", "^", "&", "*", "+", "=", "~", "`", "<", ">", "_", "!!!", "?!", "。", "、", "¿", "«", "—", "===", "//", "/*", "!= ", ");\n"]
NUMBERS = ["0", "7", "12", "123", "1234", "12345", "123456", "1234567890", "1 2 3", "3.5", "10%", "1st", "2nd", "v1.2.3", "00:00:00", "1/2", "-5", "+8", "１２３", "٣٤", "12345678901234567890", "1,234,567", "9a9b9c", "²³", "Ⅷ", "½"]
ADDED = [
    "\\{n}", " \\{n} ", "a\\{n}b", "a \\{n} b", "\\{n}\\{n}", "\\{n} \\{n}", "see \\{n}, then", "\\{n}\\n\\{m} x", "  \\{n}  \\{m}  ", "word\\{n} word\\{m}.", "\\{n}Hello \\{m}world",
]


def escaped(text):
    simple = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    visible = lambda c: c.isprintable() and not (c.isspace() and c != " ")
    return "".join(simple.get(c) or (c if visible(c) else f"\\u{{{ord(c):x}}}") for c in text)


def texts():
    lines = [escaped(text) for text in SENTENCES]
    words = itertools.cycle(WORDS)
    for number, space in enumerate(SPACES):
        a, b, c = next(words), next(words), next(words)
        lines += [escaped(text) for text in (space, space + a, a + space, f"{a}{space}{b}", f"{space}{a}{space}{b}{space}{c}{space}")]
    for mark in MARKS:
        a, b = next(words), next(words)
        lines += [escaped(text) for text in (mark + a, f"{a} {mark}{b}{mark} {mark}")]
    for number in NUMBERS:
        lines.append(escaped(f"{next(words)} {number} {next(words)}{number}"))
    for n in range(10):
        for form in ADDED:
            lines.append(form.replace("{n}", str(n)).replace("{m}", str((n + 3) % 10)))
    for first, second in itertools.combinations(WORDS, 2):
        lines.append(escaped(f"{first.upper()} {second.capitalize()}{first} {second}-{first}, {second}"))
    return list(dict.fromkeys(lines))


def unescaped(line):
    simple = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
    return re.sub(r"\\(u\{([0-9a-f]+)\}|[nrt\\])", lambda found: chr(int(found[2], 16)) if found[2] else simple[found[1]], line)


def with_added(line, added):
    """The text of a line, with added tokens in place of `\\0` to `\\9`."""
    parts = re.split(r"(?<!\\)\\([0-9])", line)
    return "".join(added[int(part)] if number % 2 else unescaped(part) for number, part in enumerate(parts))


if __name__ == "__main__":
    lines = texts()
    if len(lines) < 500:
        sys.exit(f"{len(lines)} texts")
    open(sys.argv[1], "w", encoding="utf-8", newline="\n").write("\n".join(lines[:500]) + "\n")

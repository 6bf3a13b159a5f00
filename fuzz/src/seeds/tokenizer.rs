//! Seeds of the target that tokenizes: a vocabulary of each model, and of each pre-tokenizer.

/// Types and texts of tokens.
const TOKENS: [(u8, &str); 30] = [
    (2, "<unk>"),
    (3, "<s>"),
    (3, "</s>"),
    (1, "a"),
    (1, "b"),
    (1, "ab"),
    (1, "abab"),
    (1, "\u{120}"),
    (1, "a"),
    (1, "\u{120}a"),
    (1, "\u{2581}"),
    (1, "\u{2581}a"),
    (1, "##b"),
    (1, "1"),
    (1, "\u{10a}"),
    (1, "\n"),
    (1, "\n\n"),
    (4, "<x>"),
    (4, "<x><x>"),
    (3, "<|im_end|>"),
    (6, "<0x0A>"),
    (6, "<0xC3>"),
    (6, "<0x41>"),
    (1, "<dna>"),
    (1, "</dna>"),
    (1, "<oov>"),
    (1, "ACGTAA\u{e000}"),
    (1, "\\x41"),
    (5, "<unused0>"),
    (1, ""),
];

const TEXT: &str =
    "abab ab  a1123b\n\n\u{3000}<x><x><x> <dna>acgt</dna>\u{c9}\u{301} It's<|im_end|> \t";

/// Returns a vocabulary of byte pairs for every pre-tokenizer, and one of every other model.
pub(super) fn vocabularies() -> Vec<(String, Vec<u8>)> {
    let one = |model: u8, pre: u8| {
        let mut tokens = Vec::new();
        let mut count = 0;
        for (kind, token) in TOKENS {
            // Two equal tokens are refused; most seeds have none.
            if token == "a" && count > 3 && pre % 16 != 15 {
                continue;
            }
            tokens.extend([kind, u8::try_from(token.len()).unwrap_or(0)]);
            tokens.extend_from_slice(token.as_bytes());
            count += 1;
        }
        let head = [model, pre, pre.wrapping_mul(7), count];
        let text = [TEXT.as_bytes(), b"\xff\xe2\x82 \xf4\x90\x80\x80\xc0\xa0"].concat();
        (format!("{model}-{pre}"), [&head[..], &tokens, &text].concat())
    };
    let pairs = (0..91).map(|pre| one(0, pre));
    let others = (1..11).flat_map(|model| [one(model, 0), one(model, 40)]);
    pairs.chain(others).collect()
}

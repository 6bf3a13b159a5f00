//! Pre-tokenizers: how text is cut into words before byte pairs are merged.

mod automaton;
mod expression;
mod local;
mod names;
mod plain;
mod scan;
mod set;
mod table;
mod words;

pub(crate) use automaton::Memo;
pub(crate) use table::{PreTokenizer, find, nearest};
pub(crate) use words::Words;

/// The names of pre-tokenizers that `tokenizer.ggml.pre` can have, in alphabetical order.
///
/// ```
/// assert!(ggmill_tokenizer::pre_tokenizer_names().any(|name| name == "llama-bpe"));
/// ```
pub fn names() -> impl Iterator<Item = &'static str> {
    table::all().iter().map(|known| known.name)
}

/// The name that stands for the rules of a pre-tokenizer: names with the same rules cut text into the
/// same words. `None` for a name that is not known.
///
/// ```
/// use ggmill_tokenizer::pre_tokenizer_rules;
/// assert_eq!(pre_tokenizer_rules("lfm2"), pre_tokenizer_rules("llama-bpe"));
/// assert_ne!(pre_tokenizer_rules("qwen2"), pre_tokenizer_rules("llama-bpe"));
/// ```
pub fn rules(name: &str) -> Option<&'static str> {
    names::line_of(name).map(|line| line.rules)
}

/// Whether a byte-level BPE vocabulary with this pre-tokenizer may have no merges: llama.cpp then takes
/// whole words as tokens (`llama_vocab::impl::load` in `src/llama-vocab.cpp`). `false` for a name that
/// is not known.
///
/// ```
/// assert!(ggmill_tokenizer::pre_tokenizer_allows_no_merges("kimi-k2"));
/// assert!(!ggmill_tokenizer::pre_tokenizer_allows_no_merges("llama-bpe"));
/// ```
pub fn allows_no_merges(name: &str) -> bool {
    names::line_of(name).is_some_and(|line| line.has("without-merges"))
}

/// One pre-tokenizer for each set of rules, in the order of its first name.
pub(crate) fn all_rules() -> impl Iterator<Item = &'static PreTokenizer> {
    let all = table::all();
    let is_first = move |(place, known): &(usize, &PreTokenizer)| {
        !all.iter().take(*place).any(|other| other.rules == known.rules)
    };
    all.iter().enumerate().filter(is_first).map(|(_, known)| known)
}

/// The character at a position of text that is UTF-8, but may have surrogates, and its length.
#[inline]
fn decode(text: &[u8], place: usize) -> (u32, usize) {
    let tail = |byte: u8| u32::from(byte & 0x3F);
    match *text.get(place..).unwrap_or_default() {
        [a, ..] if a < 0x80 => (a.into(), 1),
        [a, b, ..] if a < 0xE0 => (u32::from(a & 0x1F) << 6 | tail(b), 2),
        [a, b, c, ..] if a < 0xF0 => (u32::from(a & 0x0F) << 12 | tail(b) << 6 | tail(c), 3),
        [a, b, c, d, ..] => (u32::from(a & 7) << 18 | tail(b) << 12 | tail(c) << 6 | tail(d), 4),
        _ => (0, 1),
    }
}

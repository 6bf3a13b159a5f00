//! Pre-tokenizers: how text is cut into words before byte pairs are merged.

mod automaton;
mod expression;
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

/// The character at a position of text that is UTF-8, but may have surrogates, and its length.
#[inline]
fn decode(text: &[u8], place: usize) -> (u32, usize) {
    let at = |offset: usize| {
        u32::from(text.get(place.wrapping_add(offset)).copied().unwrap_or_default())
    };
    let first = at(0);
    match first {
        0..0x80 => (first, 1),
        0x80..0xE0 => ((first & 0x1F) << 6 | at(1) & 0x3F, 2),
        0xE0..0xF0 => ((first & 0x0F) << 12 | (at(1) & 0x3F) << 6 | at(2) & 0x3F, 3),
        _ => {
            let high = (first & 7) << 18 | (at(1) & 0x3F) << 12;
            (high | (at(2) & 0x3F) << 6 | at(3) & 0x3F, 4)
        }
    }
}

//! Pre-tokenizers: how text is cut into words before byte pairs are merged.

mod table;

pub(crate) use table::{PreTokenizer, find, nearest};

/// The names of pre-tokenizers that `tokenizer.ggml.pre` can have, in alphabetical order.
///
/// ```
/// assert!(ggmill_tokenizer::pre_tokenizer_names().any(|name| name == "llama-bpe"));
/// ```
pub fn names() -> impl Iterator<Item = &'static str> {
    table::all().iter().map(|known| known.name)
}

//! Switches of a vocabulary.

/// Tokenizer flags: from the tokenizer model, the pre-tokenizer name and the file, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the reference")]
pub struct Flags {
    /// A begin token is added.
    pub add_bos: bool,
    /// An end token is added.
    pub add_eos: bool,
    /// A separator is added; the reference reads it and does not use it.
    pub add_sep: bool,
    /// A space is put before text that is first or follows a special token.
    pub add_space_prefix: bool,
    /// Runs of spaces become one (UGM).
    pub remove_extra_whitespaces: bool,
    /// Spaces are written U+2581 in tokens.
    pub escape_whitespaces: bool,
    /// Spaces before punctuation are removed when tokens become text.
    pub clean_spaces: bool,
    /// A word that is a token is that token, whatever the merges say.
    pub ignore_merges: bool,
    /// Text is put into lower case (WPM, whitespace).
    pub lowercase: bool,
    /// Accents are removed (WPM).
    pub strip_accents: bool,
}

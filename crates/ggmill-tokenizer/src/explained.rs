//! An explanation of how a text is tokenized.

use std::ops::Range;

use crate::sink::Piece;

/// The tokenization of a part of a text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Explained {
    /// A token that the vocabulary adds at the beginning or the end.
    Added(Piece),
    /// A special token, whose text is found before all else.
    Special(Piece),
    /// Text between special tokens.
    Text(ExplainedText),
}

/// The tokenization of the text between two special tokens.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExplainedText {
    /// Where it is in the whole text.
    pub range: Range<usize>,
    /// The text before pre-tokenization, if it is changed: with other characters for spaces or
    /// invalid UTF-8.
    pub rewritten: Option<Vec<u8>>,
    /// The passes of the pre-tokenizer, in order. None for models without one.
    pub passes: Vec<ExplainedPass>,
    /// The words, in order. The whole text is one for models that do not merge.
    pub words: Vec<ExplainedWord>,
}

/// A pass of a pre-tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedPass {
    /// The regular expression whose matches are pieces, or the name of a scanner.
    pub rule: &'static str,
    /// The pieces after it, as ranges of the text as it is cut.
    pub pieces: Vec<Range<usize>>,
}

/// The tokenization of a word.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExplainedWord {
    /// The word as it is merged.
    pub text: Vec<u8>,
    /// Whether it is a token as a whole, so that nothing is merged.
    pub is_whole: bool,
    /// The merges, in the order in which they are applied.
    pub merges: Vec<ExplainedMerge>,
    /// Its tokens, with their ranges of the whole text.
    pub pieces: Vec<Piece>,
}

/// Two neighbors of a word that become one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExplainedMerge {
    /// Where the left one begins in the text of the word, in bytes.
    pub start: usize,
    /// Where the right one begins.
    pub middle: usize,
    /// Where it ends.
    pub end: usize,
    /// Why now: the lowest rank, or the highest score.
    pub order: MergeOrder,
}

/// The criterion for which neighbors are merged first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum MergeOrder {
    /// The place in `tokenizer.ggml.merges`; the lowest is first.
    Rank(u32),
    /// The score of the token that they become; the highest is first.
    Score(f32),
}

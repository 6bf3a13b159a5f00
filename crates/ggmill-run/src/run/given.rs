//! What a program is run over: texts, and the sources of those that have one.

use core::ops::Range;

use crate::source::Source;

/// Texts as tokens, one after the other, or as vectors.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    pub(super) texts: Vec<Range<usize>>,
    /// None where the texts are vectors.
    pub(super) tokens: Vec<u32>,
    pub(super) vectors: Vec<f32>,
    /// The place of each token, or vector, in its text.
    pub(super) positions: Vec<u32>,
}

impl Sequence {
    pub(super) fn of(texts: &[&[u32]]) -> Self {
        let mut sequence = Self::default();
        for text in texts {
            sequence.push(text.len());
            sequence.tokens.extend_from_slice(text);
        }
        sequence
    }

    /// Sources of so many tokens or vectors each.
    pub(super) fn of_sources(sources: &[Source<'_>], lengths: &[usize]) -> Self {
        let mut sequence = Self::default();
        for (source, &length) in sources.iter().zip(lengths) {
            sequence.push(length);
            match source {
                Source::Tokens(tokens) => sequence.tokens.extend_from_slice(tokens),
                Source::Vectors(numbers) => sequence.vectors.extend_from_slice(numbers),
            }
        }
        sequence
    }

    /// Adds a text of so many tokens or vectors.
    fn push(&mut self, len: usize) {
        let start = self.positions.len();
        self.texts.push(start..start + len);
        self.positions.extend((0u32..).take(len));
    }

    pub(super) fn longest(&self) -> usize {
        self.texts.iter().map(ExactSizeIterator::len).max().unwrap_or(0)
    }
}

//! What a program is run over: texts, and the sources of those that have one.

use core::ops::Range;

use crate::error::Result;
use crate::program::Program;
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
    pub(super) fn of(program: &Program<'_>, texts: &[&[u32]]) -> Result<Self> {
        let mut sequence = Self::default();
        for text in texts {
            program.check(text)?;
            sequence.push(text.len());
            sequence.tokens.extend_from_slice(text);
        }
        Ok(sequence)
    }

    pub(super) fn of_sources(program: &Program<'_>, sources: &[Source<'_>]) -> Result<Self> {
        let mut sequence = Self::default();
        for &source in sources {
            sequence.push(program.check_source(source)?);
            match source {
                Source::Tokens(tokens) => sequence.tokens.extend_from_slice(tokens),
                Source::Vectors(numbers) => sequence.vectors.extend_from_slice(numbers),
            }
        }
        Ok(sequence)
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

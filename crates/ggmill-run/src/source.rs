//! The second text of models that take two.

use std::borrow::Cow;

/// The second text of a model that takes two.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Source<'a> {
    /// Tokens, as T5 takes.
    Tokens(Cow<'a, [u32]>),
    /// Vectors one after the other, of [`Graph::source_width`](ggmill_arch::graph::Graph::source_width)
    /// numbers each, as Whisper takes.
    Vectors(Cow<'a, [f32]>),
}

impl<'a> Source<'a> {
    /// A source of tokens.
    pub fn tokens(tokens: impl Into<Cow<'a, [u32]>>) -> Self {
        Self::Tokens(tokens.into())
    }

    /// A source of vectors, one after the other.
    pub fn vectors(numbers: impl Into<Cow<'a, [f32]>>) -> Self {
        Self::Vectors(numbers.into())
    }
}

//! The second text of models that take two.

/// The second text of a model that takes two.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Source<'a> {
    /// Tokens, as T5 takes.
    Tokens(&'a [u32]),
    /// Vectors one after the other, of [`Graph::source_width`](ggmill_arch::graph::Graph::source_width)
    /// numbers each, as Whisper takes.
    Vectors(&'a [f32]),
}

impl<'a> From<&'a [u32]> for Source<'a> {
    fn from(tokens: &'a [u32]) -> Self {
        Self::Tokens(tokens)
    }
}

impl<'a, const N: usize> From<&'a [u32; N]> for Source<'a> {
    fn from(tokens: &'a [u32; N]) -> Self {
        Self::Tokens(tokens)
    }
}

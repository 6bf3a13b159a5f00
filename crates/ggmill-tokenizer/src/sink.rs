//! Where tokens go: one way through the models for IDs, offsets and counts.

/// A token and the range of the text it stands for, in bytes. Tokens that were added have an empty
/// range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a token and its range")]
pub struct Piece {
    /// The token.
    pub id: u32,
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Takes the tokens of a text in order.
pub(crate) trait Sink {
    /// Whether ranges are used. Where not, models may leave them empty.
    const RANGES: bool;

    /// A token, and the range of the whole text it stands for.
    fn push(&mut self, id: u32, start: usize, end: usize);

    /// Tokens whose ranges are not asked for.
    fn extend(&mut self, ids: &[u32]) {
        for &id in ids {
            self.push(id, 0, 0);
        }
    }
}

impl<S: Sink> Sink for &mut S {
    const RANGES: bool = S::RANGES;

    #[inline]
    fn push(&mut self, id: u32, start: usize, end: usize) {
        (**self).push(id, start, end);
    }

    fn extend(&mut self, ids: &[u32]) {
        (**self).extend(ids);
    }
}

/// Keeps the IDs.
pub(crate) struct Ids<'a>(pub(crate) &'a mut Vec<u32>);

impl Sink for Ids<'_> {
    const RANGES: bool = false;

    #[inline]
    fn push(&mut self, id: u32, _: usize, _: usize) {
        self.0.push(id);
    }

    #[inline]
    fn extend(&mut self, ids: &[u32]) {
        self.0.extend_from_slice(ids);
    }
}

/// Keeps IDs and ranges.
pub(crate) struct Pieces<'a>(pub(crate) &'a mut Vec<Piece>);

impl Sink for Pieces<'_> {
    const RANGES: bool = true;

    fn push(&mut self, id: u32, start: usize, end: usize) {
        self.0.push(Piece { id, start, end });
    }
}

/// Keeps nothing.
#[derive(Debug, Default)]
pub(crate) struct Count(pub(crate) usize);

impl Sink for Count {
    const RANGES: bool = false;

    #[inline]
    fn push(&mut self, _: u32, _: usize, _: usize) {
        self.0 = self.0.saturating_add(1);
    }

    #[inline]
    fn extend(&mut self, ids: &[u32]) {
        self.0 = self.0.saturating_add(ids.len());
    }
}

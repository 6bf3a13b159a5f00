//! Ranges that an expression leaves unchanged: ranges of the source's tensors, one after the other.

use super::{Expression, Kind};

/// Pieces beyond which moving them one by one gains nothing.
const MAX_PIECES: usize = 4096;

/// Bytes of a tensor of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) tensor: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Expression {
    /// The bytes of the source that are all the bytes of the expression, in order; `None` when
    /// something has to be done to them, or they are in too many places.
    pub(crate) fn copies(&self) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        let atoms = self.0.shape.elements() / self.0.block.0;
        (atoms == 0 || self.add_copies(0, atoms, &mut pieces)).then_some(pieces)
    }

    /// Appends the bytes of so many atoms; `false` when they are nowhere as they are.
    fn add_copies(&self, start: u64, len: u64, pieces: &mut Vec<Piece>) -> bool {
        // Nothing but ones after a dimension: it is the slowest.
        let is_slowest = |of: &Self, dimension: usize| {
            of.0.extents.iter().skip(dimension + 1).all(|&extent| extent == 1)
        };
        let inner =
            |of: &Self, dimension: usize| of.0.extents.iter().take(dimension).product::<u64>();
        match &self.0.kind {
            Kind::Tensor { number, .. } => {
                let atom = self.0.block.1 as u64;
                let new = Piece { tensor: *number, offset: start * atom, len: len * atom };
                match pieces.last_mut() {
                    Some(last)
                        if last.tensor == new.tensor && last.offset + last.len == new.offset =>
                    {
                        last.len += new.len;
                    }
                    _ => pieces.push(new),
                }
                pieces.len() <= MAX_PIECES
            }
            Kind::Reshape { child } => child.add_copies(start, len, pieces),
            Kind::Slice { child, dimension, start: first, step }
                if (*step == 1 || self.0.extents[*dimension] == 1)
                    && is_slowest(child, *dimension) =>
            {
                child.add_copies(start + first * inner(child, *dimension), len, pieces)
            }
            Kind::Join { parts, dimension, ends } if is_slowest(self, *dimension) => {
                let inner = inner(self, *dimension);
                let (mut start, end) = (start, start + len);
                while start < end {
                    let part = ends.partition_point(|&part_end| part_end * inner <= start);
                    let first = part.checked_sub(1).map_or(0, |before| ends[before]) * inner;
                    let until = end.min(ends[part] * inner);
                    if !parts[part].add_copies(start - first, until - start, pieces) {
                        return false;
                    }
                    start = until;
                }
                true
            }
            _ => false,
        }
    }
}

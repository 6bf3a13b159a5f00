//! The places of results in a buffer, as ggml chooses them (`ggml-alloc.c`).

use ggmill_arch::{ComputeKind, ComputeNode};

use crate::error::Result;
use crate::size::{in_buffer, product, sum, too_large};

/// Bytes of an F32 number.
const F32: u64 = 4;

/// A range of a buffer that nothing is in.
#[derive(Clone, Copy, Debug)]
struct Free {
    offset: u64,
    size: u64,
}

/// A buffer of any length.
#[derive(Debug)]
struct Buffer {
    /// In order of their offsets. The last one has no end.
    free: Vec<Free>,
    /// The end of what has been in use.
    length: u64,
}

impl Buffer {
    fn new() -> Self {
        Self { free: vec![Free { offset: 0, size: 1 << 62 }], length: 0 }
    }

    /// The offset of `size` bytes: in the smallest free range that has room for them, else in the
    /// range without an end.
    fn allocate(&mut self, size: u64) -> Result<u64> {
        let (last, before) = self.free.split_last().ok_or_else(too_large)?;
        // Of those of one size the last.
        let fitting = before.iter().enumerate().rev().filter(|(_, free)| free.size >= size);
        let place = match fitting.min_by_key(|(_, free)| free.size) {
            Some((place, _)) => place,
            None if last.size >= size => before.len(),
            None => return Err(too_large()),
        };
        let free = self.free.get_mut(place).ok_or_else(too_large)?;
        let offset = free.offset;
        let end = sum(offset, size)?;
        free.offset = end;
        free.size = free.size.saturating_sub(size);
        if free.size == 0 {
            self.free.remove(place);
        }
        self.length = self.length.max(end);
        Ok(offset)
    }

    /// Makes a range free, with those beside it as one.
    fn free(&mut self, offset: u64, size: u64) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        let end = sum(offset, size)?;
        let place = self.free.partition_point(|free| free.offset < offset);
        let previous = place.checked_sub(1).and_then(|place| self.free.get(place).copied());
        let next = self.free.get(place).copied();
        let joins_next = next.is_some_and(|next| next.offset == end);
        let joined = Free {
            offset,
            size: if let Some(next) = next.filter(|_| joins_next) {
                sum(size, next.size)?
            } else {
                size
            },
        };
        match previous.filter(|previous| previous.offset.saturating_add(previous.size) == offset) {
            Some(previous) => {
                let before = place.saturating_sub(1);
                if let Some(free) = self.free.get_mut(before) {
                    free.size = sum(previous.size, joined.size)?;
                }
                if joins_next {
                    self.free.remove(place);
                }
            }
            None if joins_next => {
                if let Some(free) = self.free.get_mut(place) {
                    *free = joined;
                }
            }
            None => self.free.insert(place, joined),
        }
        Ok(())
    }
}

/// A result while it is computed and needed.
#[derive(Clone, Copy, Debug, Default)]
struct Placed {
    size: u64,
    /// How often it is still a source.
    uses: usize,
    /// Where it is, as long as it is there.
    offset: Option<u64>,
}

/// The length of the buffer that results need, which are computed in order and each kept until
/// the last one that needs it is computed.
pub(crate) fn length(nodes: &[ComputeNode]) -> Result<u64> {
    let mut buffer = Buffer::new();
    let mut placed: Vec<Placed> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let size = in_buffer(product(&[node.elements, F32])?)?;
        placed.push(Placed { size, ..Placed::default() });
    }
    for &source in nodes.iter().flat_map(|node| &node.sources) {
        let source = placed.get_mut(source).ok_or_else(too_large)?;
        source.uses = source.uses.saturating_add(1);
    }
    // Inputs are there first.
    for (node, placed) in nodes.iter().zip(&mut placed) {
        if node.kind == ComputeKind::Input && placed.uses > 0 && placed.size > 0 {
            placed.offset = Some(buffer.allocate(placed.size)?);
        }
    }
    for (place, node) in nodes.iter().enumerate() {
        let size = placed.get(place).map_or(0, |placed| placed.size);
        if size > 0 && node.kind != ComputeKind::Input {
            let reused = node.sources.iter().copied().find(|&source| {
                node.kind == ComputeKind::InPlace
                    && placed.get(source).is_some_and(|source| {
                        source.uses == 1 && source.size == size && source.offset.is_some()
                    })
            });
            let offset = match reused.and_then(|source| placed.get_mut(source)) {
                Some(source) => source.offset.take(),
                None => Some(buffer.allocate(size)?),
            };
            if let Some(placed) = placed.get_mut(place) {
                placed.offset = offset;
            }
        }
        for &source in &node.sources {
            let Some(source) = placed.get_mut(source) else { continue };
            source.uses = source.uses.saturating_sub(1);
            if source.uses == 0
                && let Some(offset) = source.offset.take()
            {
                buffer.free(offset, source.size)?;
            }
        }
    }
    Ok(buffer.length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_taken_where_it_fits_best() {
        let mut buffer = Buffer::new();
        let offsets: Vec<u64> =
            [64, 32, 96, 32, 64].into_iter().map(|size| buffer.allocate(size).unwrap()).collect();
        assert_eq!(offsets, [0, 64, 96, 192, 224]);
        buffer.free(0, 64).unwrap();
        buffer.free(96, 96).unwrap();
        // Both have room for it, the first is smaller.
        assert_eq!(buffer.allocate(32).unwrap(), 0);
        // The rest of it and what is freed behind it are one range.
        buffer.free(64, 32).unwrap();
        assert_eq!(buffer.allocate(160).unwrap(), 32);
        assert_eq!(buffer.length, 288);
        assert_eq!(buffer.allocate(32).unwrap(), 288);
    }

    #[test]
    fn what_is_freed_joins_what_is_free_beside_it() {
        let mut buffer = Buffer::new();
        for _ in 0..3 {
            buffer.allocate(32).unwrap();
        }
        buffer.free(64, 32).unwrap();
        buffer.free(0, 32).unwrap();
        buffer.free(32, 32).unwrap();
        assert_eq!(buffer.free.len(), 1);
        assert_eq!(buffer.allocate(128).unwrap(), 0);
        assert_eq!(buffer.length, 128);
    }
}

//! Offsets of results in compute buffers, as ggml assigns them (`ggml-alloc.c`).
//!
//! The free list is searched linearly, as in ggml, whose order of ranges with equal or empty sizes a
//! sorted structure would not reproduce. A graph has at most 32,768 nodes, which bounds the time.

use ggmill_arch::ComputeKind;

use crate::error::Result;
use crate::weights::{sum, too_large};

/// A free range of a buffer.
#[derive(Clone, Copy, Debug)]
struct Free {
    offset: u64,
    size: u64,
}

impl Free {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// A buffer of unlimited length.
#[derive(Debug)]
struct Buffer {
    /// The free list, ordered by offset except for empty ranges. The last range is unlimited.
    free: Vec<Free>,
    /// The peak: the end of the last range that has been in use.
    length: u64,
}

impl Buffer {
    fn new() -> Self {
        Self { free: vec![Free { offset: 0, size: 1 << 62 }], length: 0 }
    }

    /// Allocates `size` bytes in the smallest free range that fits, else in the unlimited one, and
    /// returns the offset.
    fn allocate(&mut self, size: u64) -> Result<u64> {
        let (last, before) = self.free.split_last().ok_or_else(too_large)?;
        // Of ranges of equal size, ggml takes the last.
        let fitting = before.iter().enumerate().rev().filter(|(_, free)| free.size >= size);
        let index = match fitting.min_by_key(|(_, free)| free.size) {
            Some((index, _)) => index,
            None if last.size >= size => before.len(),
            None => return Err(too_large()),
        };
        let free = self.free.get_mut(index).ok_or_else(too_large)?;
        let offset = free.offset;
        let end = sum(offset, size)?;
        free.offset = end;
        free.size = free.size.saturating_sub(size);
        if free.size == 0 {
            self.free.remove(index);
        }
        self.length = self.length.max(end);
        Ok(offset)
    }

    /// Frees a range. It is merged with the first adjacent range of the free list, and the result with
    /// one adjacent neighbor in the list. An empty range can be freed inside a used one; it then stays
    /// in the list between ranges that are adjacent, which are not merged across it.
    fn free(&mut self, offset: u64, size: u64) -> Result<()> {
        let end = sum(offset, size)?;
        let is_adjacent = |free: &Free| free.end() == offset || end == free.offset;
        let Some(index) = self.free.iter().position(is_adjacent) else {
            // After empty ranges offsets can be out of order; ggml inserts before the first range whose
            // offset is not less.
            let index = self.free.iter().position(|free| free.offset >= offset);
            self.free.insert(index.unwrap_or(self.free.len()), Free { offset, size });
            return Ok(());
        };
        let free = self.free.get_mut(index).ok_or_else(too_large)?;
        let follows = free.end() == offset;
        free.size = sum(free.size, size)?;
        let mut first = index;
        if !follows {
            free.offset = offset;
            let Some(before) = index.checked_sub(1) else { return Ok(()) };
            first = before;
        }
        let second = first.saturating_add(1);
        let next = self.free.get(second).copied();
        if let (Some(free), Some(next)) = (self.free.get_mut(first), next)
            && free.end() == next.offset
        {
            free.size = sum(free.size, next.size)?;
            self.free.remove(second);
        }
        Ok(())
    }
}

/// A result in the buffer of a device.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The size in bytes, a multiple of the alignment.
    pub(crate) size: u64,
    pub(crate) kind: ComputeKind,
    /// The device that computes it.
    pub(crate) device: usize,
    /// `true` if it is allocated for the whole graph.
    pub(crate) stays: bool,
    /// The positions of its sources in the list.
    pub(crate) sources: Vec<usize>,
}

/// The lifetime of a result.
#[derive(Clone, Copy, Debug, Default)]
struct Lifetime {
    /// The number of remaining uses as a source.
    uses: usize,
    /// The offset while it is allocated.
    offset: Option<u64>,
}

/// Returns the lengths of the buffers of `devices` devices for results that are computed in order and
/// freed after their last use (`ggml_gallocr_alloc_graph_impl`).
pub(crate) fn lengths(results: &[Step], devices: usize) -> Result<Vec<u64>> {
    let mut buffers: Vec<Buffer> = (0..devices).map(|_| Buffer::new()).collect();
    let mut placed = vec![Lifetime::default(); results.len()];
    for &source in results.iter().flat_map(|result| &result.sources) {
        let source = placed.get_mut(source).ok_or_else(too_large)?;
        source.uses = source.uses.saturating_add(1);
    }
    // Inputs and results that stay are allocated first.
    for (result, placed) in results.iter().zip(&mut placed) {
        let is_first = result.stays || result.kind == ComputeKind::Input;
        if is_first && placed.uses > 0 && result.size > 0 {
            let buffer = buffers.get_mut(result.device).ok_or_else(too_large)?;
            placed.offset = Some(buffer.allocate(result.size)?);
        }
    }
    for (place, result) in results.iter().enumerate() {
        let buffer = buffers.get_mut(result.device).ok_or_else(too_large)?;
        let is_placed = match result.kind {
            ComputeKind::Input | ComputeKind::View => false,
            ComputeKind::Empty => true,
            _ => result.size > 0,
        };
        if is_placed && !result.stays {
            let reused = result.sources.iter().copied().find(|&source| {
                result.kind == ComputeKind::InPlace
                    && placed.get(source).zip(results.get(source)).is_some_and(|(at, source)| {
                        at.uses == 1
                            && at.offset.is_some()
                            && source.size == result.size
                            && !source.stays
                    })
            });
            let offset = match reused.and_then(|source| placed.get_mut(source)) {
                Some(source) => source.offset.take(),
                None => Some(buffer.allocate(result.size)?),
            };
            if let Some(placed) = placed.get_mut(place) {
                placed.offset = offset;
            }
        }
        // A used view extends the lifetime of its source.
        let is_used = placed.get(place).is_some_and(|at| at.uses > 0);
        let keeps = result.kind == ComputeKind::View && is_used;
        let mut used: Vec<usize> = result.sources.iter().rev().copied().collect();
        while let Some(source) = used.pop().filter(|_| !keeps) {
            let (Some(at), Some(source)) = (placed.get_mut(source), results.get(source)) else {
                continue;
            };
            at.uses = at.uses.saturating_sub(1);
            if at.uses > 0 {
                continue;
            }
            if source.kind == ComputeKind::View {
                used.extend(source.sources.iter().rev());
            } else if !source.stays
                && let Some(offset) = at.offset.take()
            {
                let buffer = buffers.get_mut(source.device).ok_or_else(too_large)?;
                buffer.free(offset, source.size)?;
            }
        }
    }
    Ok(buffers.iter().map(|buffer| buffer.length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_fitting_range_is_used() {
        let mut buffer = Buffer::new();
        let offsets: Vec<u64> =
            [64, 32, 96, 32, 64].into_iter().map(|size| buffer.allocate(size).unwrap()).collect();
        assert_eq!(offsets, [0, 64, 96, 192, 224]);
        buffer.free(0, 64).unwrap();
        buffer.free(96, 96).unwrap();
        // It fits into both; the first is smaller.
        assert_eq!(buffer.allocate(32).unwrap(), 0);
        // The remainder and the range that is freed after it are merged.
        buffer.free(64, 32).unwrap();
        assert_eq!(buffer.allocate(160).unwrap(), 32);
        assert_eq!(buffer.length, 288);
        assert_eq!(buffer.allocate(32).unwrap(), 288);
    }

    #[test]
    fn adjacent_free_ranges_are_merged() {
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

    /// As in ggml, an empty range that is freed inside a used one prevents merging across it.
    #[test]
    fn an_empty_range_prevents_merging() {
        let mut buffer = Buffer::new();
        assert_eq!(buffer.allocate(32).unwrap(), 0);
        assert_eq!(buffer.allocate(0).unwrap(), 32);
        assert_eq!(buffer.allocate(64).unwrap(), 32);
        assert_eq!(buffer.allocate(32).unwrap(), 96);
        // At the start of a used range.
        buffer.free(0, 32).unwrap();
        assert_eq!(buffer.allocate(32).unwrap(), 0);
        buffer.free(32, 0).unwrap();
        buffer.free(0, 32).unwrap();
        let ranges = |buffer: &Buffer| -> Vec<_> {
            buffer.free.iter().map(|free| (free.offset, free.size)).collect()
        };
        assert_eq!(ranges(&buffer)[..2], [(0, 32), (128, (1 << 62) - 128)]);
        // In the middle of a used range.
        buffer.free(64, 0).unwrap();
        buffer.free(32, 64).unwrap();
        assert_eq!(ranges(&buffer)[..2], [(0, 96), (64, 0)]);
        // After the empty range, with which it would be merged.
        buffer.free(96, 32).unwrap();
        assert_eq!(ranges(&buffer), [(0, 128), (64, 0), (128, (1 << 62) - 128)]);
        assert_eq!(buffer.allocate(160).unwrap(), 128);
    }

    #[test]
    fn a_range_is_inserted_before_the_first_with_no_smaller_offset() {
        let mut buffer = Buffer::new();
        let sizes = [32, 0, 32, 0];
        let offsets = sizes.map(|size| buffer.allocate(size).unwrap());
        assert_eq!(offsets, [0, 32, 32, 64]);
        buffer.free(32, 32).unwrap();
        buffer.free(0, 32).unwrap();
        assert_eq!(buffer.allocate(96).unwrap(), 0);
        buffer.free(64, 0).unwrap();
        buffer.free(0, 96).unwrap();
        buffer.free(32, 0).unwrap();
        let offsets: Vec<u64> = buffer.free.iter().map(|free| free.offset).collect();
        assert_eq!(offsets, [32, 64, 0]);
    }

    #[test]
    fn a_view_extends_the_lifetime_of_its_source() {
        let step = |kind, size, sources: &[usize]| Step {
            size,
            kind,
            device: 0,
            stays: false,
            sources: sources.to_vec(),
        };
        let steps = |of: ComputeKind| {
            [
                step(ComputeKind::Own, 64, &[]),
                step(of, 32, &[0]),
                step(ComputeKind::Own, 64, &[]),
                step(ComputeKind::Own, 32, &[1, 2]),
            ]
        };
        // The view takes no memory, and its source lives until the end.
        assert_eq!(lengths(&steps(ComputeKind::View), 1).unwrap(), [160]);
        // Another result is allocated after the source, which is then freed.
        assert_eq!(lengths(&steps(ComputeKind::Own), 1).unwrap(), [128]);
        // An unused view extends no lifetime.
        let unused = [
            step(ComputeKind::Own, 64, &[]),
            step(ComputeKind::View, 32, &[0]),
            step(ComputeKind::Own, 64, &[]),
        ];
        assert_eq!(lengths(&unused, 1).unwrap(), [64]);
    }
}

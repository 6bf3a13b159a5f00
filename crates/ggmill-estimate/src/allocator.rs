//! The places of results in a buffer, as ggml chooses them (`ggml-alloc.c`).

use ggmill_arch::ComputeKind;

use crate::error::Result;
use crate::size::{sum, too_large};

/// A range of a buffer that nothing is in.
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

    /// Makes a range free. It is joined with the first free range that it is beside, in order, and
    /// these with one beside them. A range without bytes can be within what is in use; when this is
    /// free again, the range is between its parts, which are not joined for that.
    fn free(&mut self, offset: u64, size: u64) -> Result<()> {
        let end = sum(offset, size)?;
        let is_beside = |free: &Free| free.end() == offset || end == free.offset;
        let Some(place) = self.free.iter().position(is_beside) else {
            // Behind ranges without bytes the offsets may be out of order: ggml takes the first that is
            // not before.
            let place = self.free.iter().position(|free| free.offset >= offset);
            self.free.insert(place.unwrap_or(self.free.len()), Free { offset, size });
            return Ok(());
        };
        let free = self.free.get_mut(place).ok_or_else(too_large)?;
        let is_behind = free.end() == offset;
        free.size = sum(free.size, size)?;
        let mut first = place;
        if !is_behind {
            free.offset = offset;
            let Some(before) = place.checked_sub(1) else { return Ok(()) };
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

/// A result that is placed in the buffer of a device.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Bytes, as a multiple of what offsets are multiples of.
    pub(crate) size: u64,
    pub(crate) kind: ComputeKind,
    /// The device that computes it.
    pub(crate) device: usize,
    /// Whether it is there from the beginning to the end.
    pub(crate) stays: bool,
    /// The results that it is computed of, by their places in the list.
    pub(crate) sources: Vec<usize>,
}

/// Where a result is while it is needed.
#[derive(Clone, Copy, Debug, Default)]
struct Placed {
    /// How often it is still a source.
    uses: usize,
    /// Where it is, as long as it is there.
    offset: Option<u64>,
}

/// The lengths of the buffers of so many devices that results need, which are computed in order and
/// each kept until the last one that needs it is computed (`ggml_gallocr_alloc_graph_impl`).
pub(crate) fn lengths(results: &[Step], devices: usize) -> Result<Vec<u64>> {
    let mut buffers: Vec<Buffer> = (0..devices).map(|_| Buffer::new()).collect();
    let mut placed = vec![Placed::default(); results.len()];
    for &source in results.iter().flat_map(|result| &result.sources) {
        let source = placed.get_mut(source).ok_or_else(too_large)?;
        source.uses = source.uses.saturating_add(1);
    }
    // Inputs are there first, and what stays.
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
        // What a view is of is kept as long as the view.
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

    /// As ggml has them: a range without bytes that is freed within one that is in use stays between
    /// the parts that this becomes, and what is freed later is not joined across it.
    #[test]
    fn a_range_without_bytes_keeps_others_apart() {
        let mut buffer = Buffer::new();
        assert_eq!(buffer.allocate(32).unwrap(), 0);
        assert_eq!(buffer.allocate(0).unwrap(), 32);
        assert_eq!(buffer.allocate(64).unwrap(), 32);
        assert_eq!(buffer.allocate(32).unwrap(), 96);
        // Within the second range from the first on.
        buffer.free(0, 32).unwrap();
        assert_eq!(buffer.allocate(32).unwrap(), 0);
        buffer.free(32, 0).unwrap();
        buffer.free(0, 32).unwrap();
        let ranges = |buffer: &Buffer| -> Vec<_> {
            buffer.free.iter().map(|free| (free.offset, free.size)).collect()
        };
        assert_eq!(ranges(&buffer)[..2], [(0, 32), (128, (1 << 62) - 128)]);
        // At a place in the middle of what is in use.
        buffer.free(64, 0).unwrap();
        buffer.free(32, 64).unwrap();
        assert_eq!(ranges(&buffer)[..2], [(0, 96), (64, 0)]);
        // Behind the empty range, which is what it would be joined with.
        buffer.free(96, 32).unwrap();
        assert_eq!(ranges(&buffer), [(0, 128), (64, 0), (128, (1 << 62) - 128)]);
        assert_eq!(buffer.allocate(160).unwrap(), 128);
    }

    #[test]
    fn a_range_is_put_before_the_first_that_is_not_before_it() {
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
    fn what_a_view_is_of_is_kept_as_long_as_the_view() {
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
        // The view takes nothing, and its source is there until the end.
        assert_eq!(lengths(&steps(ComputeKind::View), 1).unwrap(), [160]);
        // A result of its own takes the place behind the source, which is free from then on.
        assert_eq!(lengths(&steps(ComputeKind::Own), 1).unwrap(), [128]);
        // A view that nothing needs keeps nothing.
        let unused = [
            step(ComputeKind::Own, 64, &[]),
            step(ComputeKind::View, 32, &[0]),
            step(ComputeKind::Own, 64, &[]),
        ];
        assert_eq!(lengths(&unused, 1).unwrap(), [64]);
    }
}

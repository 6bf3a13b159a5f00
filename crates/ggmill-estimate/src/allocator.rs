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
        let has_memory = !matches!(result.kind, ComputeKind::Input | ComputeKind::View);
        if result.size > 0 && has_memory && !result.stays {
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
        let mut used = if keeps { Vec::new() } else { result.sources.clone() };
        while let Some(source) = used.pop() {
            let (Some(at), Some(source)) = (placed.get_mut(source), results.get(source)) else {
                continue;
            };
            at.uses = at.uses.saturating_sub(1);
            if at.uses > 0 {
                continue;
            }
            if source.kind == ComputeKind::View {
                used.extend(&source.sources);
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

//! Regions: the requested elements of an array and their positions in the output, as strided loops;
//! and copying between memory in different orders.
//!
//! A view changes the loops and moves no data. A request that one set of loops cannot express
//! becomes several regions: a range across parts of a concatenation, or a reshape whose dimensions
//! do not align.

use ggmill_core::Shape;

use crate::error::Result;

/// The maximum rank of an array.
pub(super) const RANK: usize = Shape::MAX_DIMENSIONS;

/// Requested elements: the index of the first, and strided loops over the others.
///
/// Everything is counted in *atoms*: elements, or whole blocks along the first dimension of a
/// quantized array.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// The index of the first atom.
    pub(super) at: [u64; RANK],
    /// The loops. Several can run over one dimension; each has at least two iterations.
    pub(super) loops: Vec<Loop>,
    /// The position of the first atom in the output.
    pub(super) to: u64,
}

/// One loop of a [`Region`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    pub(super) count: u64,
    pub(super) dimension: usize,
    /// The step along the dimension; 0 repeats the element.
    pub(super) step: u64,
    /// The step in the output.
    pub(super) to: u64,
}

/// A loop over a flattened array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    pub(super) count: u64,
    pub(super) step: u64,
    pub(super) to: u64,
}

impl Region {
    /// Calls `each` with the regions of atoms `start..end` of an array with these extents, in
    /// order.
    pub(super) fn each(
        extents: &[u64],
        start: u64,
        end: u64,
        each: &mut dyn FnMut(Self) -> Result<()>,
    ) -> Result<()> {
        if start >= end {
            return Ok(());
        }
        unflatten(extents, start, 0, vec![Linear { count: end - start, step: 1, to: 1 }], each)
    }

    /// Returns the number of atoms.
    pub(super) fn atoms(&self) -> u64 {
        self.loops.iter().map(|this| this.count).product()
    }

    /// Sorts the loops by their step in the output, and returns the region with contiguous
    /// positions in that order, from 0 on.
    pub(super) fn pack(&mut self) -> Self {
        self.loops.sort_by_key(|this| this.to);
        let mut packed = Self { to: 0, ..self.clone() };
        pack(&mut packed.loops, 1);
        packed
    }

    /// Returns `true` if the positions in the output are contiguous, in the order of the loops.
    pub(super) fn is_packed(&self) -> bool {
        let mut to = 1;
        self.loops.iter().all(|this| {
            let expected = to;
            to *= this.count;
            this.to == expected
        })
    }

    /// Returns the range of indices along a dimension: the first, and one past the last.
    pub(super) fn range(&self, dimension: usize) -> (u64, u64) {
        let reach: u64 = self
            .loops
            .iter()
            .filter(|this| this.dimension == dimension)
            .map(|this| (this.count - 1) * this.step)
            .sum();
        (self.at[dimension], self.at[dimension] + reach + 1)
    }

    /// Returns the start and the loops in the flattened array.
    pub(super) fn flatten(&self, extents: &[u64]) -> (u64, Vec<Linear>) {
        let strides = strides(extents);
        let start = self.at.iter().zip(strides).map(|(at, stride)| at * stride).sum();
        let linear = |this: &Loop| Linear {
            count: this.count,
            step: this.step * strides[this.dimension],
            to: this.to,
        };
        (start, self.loops.iter().map(linear).collect())
    }

    /// Splits the region into two halves along loop `number`.
    pub(super) fn halves(mut self, number: usize) -> [Self; 2] {
        let Loop { count, dimension, step, to } = self.loops[number];
        let mut second = self.clone();
        second.at[dimension] += count / 2 * step;
        second.to += count / 2 * to;
        for (half, count) in [(&mut self, count / 2), (&mut second, count - count / 2)] {
            half.loops[number].count = count;
            if count == 1 {
                half.loops.remove(number);
            }
        }
        [self, second]
    }

    /// Splits the region at the part boundaries of a concatenation along `dimension`. `ends` are
    /// the ends of the parts, in order. Calls `each` with the number of a part and its region,
    /// relative to the start of the part.
    pub(super) fn split(
        mut self,
        dimension: usize,
        ends: &[u64],
        each: &mut dyn FnMut(usize, Self) -> Result<()>,
    ) -> Result<()> {
        let (low, high) = self.range(dimension);
        let part_of = |index: u64| ends.partition_point(|&end| end <= index);
        let first_of = |part: usize| part.checked_sub(1).map_or(0, |before| ends[before]);
        let part = part_of(low);
        if part_of(high - 1) == part {
            self.at[dimension] -= first_of(part);
            return each(part, self);
        }
        let runs_over = |(_, this): &(usize, &Loop)| this.dimension == dimension && this.step > 0;
        let Some((number, _)) =
            self.loops.iter().enumerate().filter(runs_over).max_by_key(|(_, this)| this.step)
        else {
            return Ok(());
        };
        let several =
            self.loops.iter().filter(|this| this.dimension == dimension && this.step > 0).count()
                > 1;
        let Loop { count, step, to, .. } = self.loops.remove(number);
        let mut done = 0;
        while done < count {
            let mut region = self.clone();
            region.at[dimension] += done * step;
            region.to += done * to;
            let part = part_of(region.at[dimension]);
            // Iterations within the part; one at a time if other loops run over the dimension.
            let iterations = if several {
                1
            } else {
                (ends[part] - region.at[dimension]).div_ceil(step).min(count - done)
            };
            if iterations > 1 {
                region.loops.push(Loop { count: iterations, dimension, step, to });
            }
            done += iterations;
            if several {
                region.split(dimension, ends, each)?;
            } else {
                region.at[dimension] -= first_of(part);
                each(part, region)?;
            }
        }
        Ok(())
    }
}

/// Sets the output steps of the loops to contiguous positions, in order, for items of `atoms`
/// atoms. Returns the total number of atoms.
pub(super) fn pack(loops: &mut [Loop], atoms: u64) -> u64 {
    loops.iter_mut().fold(atoms, |to, this| {
        this.to = to;
        to * this.count
    })
}

/// Returns the stride of each dimension.
pub(super) fn strides(extents: &[u64]) -> [u64; RANK] {
    let mut strides = [0; RANK];
    let mut stride = 1;
    for (this, extent) in strides.iter_mut().zip(extents) {
        *this = stride;
        stride *= extent;
    }
    strides
}

/// Converts loops over a flattened array to regions of an array with these extents: one if the
/// loops align with the dimensions, otherwise several.
pub(super) fn unflatten(
    extents: &[u64],
    start: u64,
    to: u64,
    mut loops: Vec<Linear>,
    each: &mut dyn FnMut(Region) -> Result<()>,
) -> Result<()> {
    join(&mut loops);
    unflatten_joined(extents, start, to, loops, each)
}

/// [`unflatten`] for loops that are already joined.
fn unflatten_joined(
    extents: &[u64],
    start: u64,
    to: u64,
    mut loops: Vec<Linear>,
    each: &mut dyn FnMut(Region) -> Result<()>,
) -> Result<()> {
    let strides = strides(extents);
    let mut at = [0; RANK];
    for ((at, stride), extent) in at.iter_mut().zip(strides).zip(extents) {
        *at = start / stride % extent;
    }
    let mut region = Region { at, loops: Vec::with_capacity(loops.len() + 2), to };
    let mut reach = [0; RANK];
    let mut number = 0;
    while let Some(&Linear { count, step, to }) = loops.get(number) {
        let fits =
            |dimension: &usize| extents[*dimension] > 1 && step.is_multiple_of(strides[*dimension]);
        let dimension =
            if step == 0 { 0 } else { (0..extents.len()).rev().find(fits).unwrap_or(0) };
        let (extent, stride) = (extents[dimension], strides[dimension]);
        let along = step / stride;
        let room = extent - 1 - at[dimension] - reach[dimension];
        let inside = room.checked_div(along).map_or(count, |steps| (steps + 1).min(count));
        if inside == count {
            reach[dimension] += (count - 1) * along;
            region.loops.push(Loop { count, dimension, step: along, to });
            number += 1;
            continue;
        }
        // The loop exceeds the dimension. If it does so at regular intervals, it becomes two loops.
        loops.remove(number);
        let mut done = 0;
        while done < count {
            let (start, to_start, left) =
                (start + done * step, region.to + done * to, count - done);
            let at = start / stride % extent;
            let inside = (extent - 1 - at)
                .checked_sub(reach[dimension])
                .map_or(1, |room| room / along + 1)
                .min(left);
            let is_regular = along * inside == extent && at + reach[dimension] < along;
            let rounds = if is_regular { left / inside } else { 1 };
            let more = [
                Linear { count: inside, step, to },
                Linear { count: rounds, step: step * inside, to: to * inside },
            ];
            let parts = loops.iter().copied().chain(more).filter(|this| this.count > 1).collect();
            unflatten_joined(extents, start, to_start, parts, each)?;
            done += rounds * inside;
        }
        return Ok(());
    }
    each(region)
}

/// Sorts loops by step, smallest first, and merges a loop with the next if that continues it.
pub(super) fn join(loops: &mut Vec<Linear>) {
    loops.retain(|this| this.count > 1);
    loops.sort_by_key(|this| (this.step, this.to));
    loops.dedup_by(|next, this| {
        let follows = next.step == this.step * this.count && next.to == this.to * this.count;
        if follows {
            this.count *= next.count;
        }
        follows
    });
}

/// A strided loop with its step in the source and in the destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stride {
    pub(super) count: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Side length of the tiles in which a matrix is transposed: two of them fit into the L1 cache.
const TILE: usize = 32;

/// The destination of elements: little-endian bytes in atoms of `atom` bytes, or `f32`.
pub(super) enum Out<'a> {
    Bytes { bytes: &'a mut [u8], atom: usize },
    Floats(&'a mut [f32]),
}

impl Out<'_> {
    /// Copies atoms from bytes. If the destination is `f32`, the atoms are too.
    pub(super) fn put_bytes(&mut self, strides: &[Stride], from: &[u8], to: usize) {
        match self {
            Self::Floats(floats) => {
                copy_strided(
                    strides,
                    from.as_chunks::<4>().0,
                    &mut floats[to..],
                    f32::from_le_bytes,
                );
            }
            Self::Bytes { bytes, atom } => match atom {
                1 => copy_strided(strides, from, &mut bytes[to..], |byte| byte),
                2 => copy_strided(
                    strides,
                    from.as_chunks::<2>().0,
                    &mut bytes.as_chunks_mut::<2>().0[to..],
                    |atom| atom,
                ),
                4 => copy_strided(
                    strides,
                    from.as_chunks::<4>().0,
                    &mut bytes.as_chunks_mut::<4>().0[to..],
                    |atom| atom,
                ),
                8 => copy_strided(
                    strides,
                    from.as_chunks::<8>().0,
                    &mut bytes.as_chunks_mut::<8>().0[to..],
                    |atom| atom,
                ),
                &mut atom => copy_blocks(strides, from, &mut bytes[to * atom..], atom),
            },
        }
    }

    /// Copies `f32` values, as little-endian bytes if the destination is bytes.
    pub(super) fn put_floats(&mut self, strides: &[Stride], from: &[f32], to: usize) {
        match self {
            Self::Floats(floats) => copy_strided(strides, from, &mut floats[to..], |number| number),
            Self::Bytes { bytes, .. } => {
                copy_strided(
                    strides,
                    from,
                    &mut bytes.as_chunks_mut::<4>().0[to..],
                    f32::to_le_bytes,
                );
            }
        }
    }

    /// Writes zero atoms.
    pub(super) fn put_zeros(&mut self, loops: &[Loop], to: usize) {
        let strides: Vec<Stride> = loops
            .iter()
            .map(|this| Stride { count: size(this.count), from: 0, to: size(this.to) })
            .collect();
        match self {
            Self::Floats(_) => self.put_floats(&strides, &[0.0], to),
            Self::Bytes { atom, .. } => {
                let zeros = vec![0; *atom];
                self.put_bytes(&strides, &zeros, to);
            }
        }
    }
}

/// Converts a count of elements in memory, which is known to fit.
pub(super) fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns the strides for copying from a packed region to the positions of `to`.
pub(super) fn from_packed(packed: &[Loop], to: &[Loop]) -> Vec<Stride> {
    packed
        .iter()
        .zip(to)
        .map(|(packed, to)| Stride {
            count: size(to.count),
            from: size(packed.to),
            to: size(to.to),
        })
        .collect()
}

/// Returns the strides of loops over a flattened array.
pub(super) fn linear_strides(loops: &[Linear]) -> Vec<Stride> {
    loops
        .iter()
        .map(|this| Stride { count: size(this.count), from: size(this.step), to: size(this.to) })
        .collect()
}

/// Copies elements along the strides, and converts each.
fn copy_strided<S: Copy, D>(
    strides: &[Stride],
    from: &[S],
    to: &mut [D],
    convert: impl Fn(S) -> D + Copy,
) {
    let strides = optimized(strides);
    match *strides {
        [] => to[0] = convert(from[0]),
        [inner] => copy_row(inner, from, to, convert),
        [ref outer @ .., second, first] => {
            // The innermost loops are last: the one with contiguous writes, and before it the one
            // with contiguous reads.
            visit_strides(outer, 0, 0, &mut |from_at, to_at| {
                copy_tiled(second, first, &from[from_at..], &mut to[to_at..], convert);
            });
        }
    }
}

/// Drops loops of one iteration, merges loops that continue each other, and sorts the loop with
/// contiguous writes last, and before it the one with contiguous reads.
fn optimized(strides: &[Stride]) -> Vec<Stride> {
    let mut strides: Vec<Stride> = strides.iter().filter(|this| this.count > 1).copied().collect();
    strides.sort_by_key(|this| this.to);
    strides.dedup_by(|next, this| {
        let follows = next.from == this.from * this.count && next.to == this.to * this.count;
        if follows {
            this.count *= next.count;
        }
        follows
    });
    strides.reverse();
    if let [rest @ .., _] = &mut strides[..]
        && let Some(reads) = (0..rest.len()).min_by_key(|&number| rest[number].from)
    {
        rest[reads..].rotate_left(1);
    }
    strides
}

/// Calls `visit` with the source and destination offset of every iteration.
fn visit_strides(strides: &[Stride], from: usize, to: usize, visit: &mut dyn FnMut(usize, usize)) {
    let Some((first, rest)) = strides.split_first() else { return visit(from, to) };
    for i in 0..first.count {
        visit_strides(rest, from + i * first.from, to + i * first.to, visit);
    }
}

fn copy_row<S: Copy, D>(inner: Stride, from: &[S], to: &mut [D], convert: impl Fn(S) -> D) {
    let Stride { count, from: from_step, to: to_step } = inner;
    if (from_step, to_step) == (1, 1) {
        for (to, from) in to[..count].iter_mut().zip(&from[..count]) {
            *to = convert(*from);
        }
    } else if to_step == 1 && from_step == 0 {
        to[..count].fill_with(|| convert(from[0]));
    } else {
        for i in 0..count {
            to[i * to_step] = convert(from[i * from_step]);
        }
    }
}

/// Copies two nested loops, in tiles if one has contiguous reads and the other contiguous writes.
fn copy_tiled<S: Copy, D>(
    second: Stride,
    first: Stride,
    from: &[S],
    to: &mut [D],
    convert: impl Fn(S) -> D + Copy,
) {
    if first.from <= second.from {
        for i in 0..second.count {
            copy_row(first, &from[i * second.from..], &mut to[i * second.to..], convert);
        }
        return;
    }
    for i_start in (0..first.count).step_by(TILE) {
        let firsts = Stride { count: TILE.min(first.count - i_start), ..first };
        for j in 0..second.count {
            copy_row(
                firsts,
                &from[i_start * first.from + j * second.from..],
                &mut to[i_start * first.to + j * second.to..],
                convert,
            );
        }
    }
}

/// [`copy_strided`] for atoms whose size is not a compile-time constant.
fn copy_blocks(strides: &[Stride], from: &[u8], to: &mut [u8], atom: usize) {
    let mut strides = optimized(strides);
    let run = match strides.last() {
        Some(&Stride { count, from: 1, to: 1 }) => {
            strides.pop();
            count * atom
        }
        _ => atom,
    };
    visit_strides(&strides, 0, 0, &mut |from_at, to_at| {
        to[to_at * atom..][..run].copy_from_slice(&from[from_at * atom..][..run]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores the array index of each output position of a region.
    fn collect(region: &Region, extents: &[u64], out: &mut [Option<u64>]) {
        let (start, loops) = region.flatten(extents);
        let mut places = vec![(start, region.to)];
        for this in loops {
            places = (0..this.count)
                .flat_map(|i| {
                    places
                        .iter()
                        .map(move |(from, to)| (from + i * this.step, to + i * this.to))
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        for (from, to) in places {
            assert_eq!(
                out[usize::try_from(to).unwrap()].replace(from),
                None,
                "{to} is written twice"
            );
        }
    }

    #[test]
    fn a_range_keeps_its_order_for_any_extents() {
        for extents in [&[24][..], &[6, 4], &[4, 3, 2], &[1, 24, 1], &[5, 5]] {
            let all: u64 = extents.iter().product();
            for start in 0..all {
                for end in start + 1..=all {
                    let mut out = vec![None; usize::try_from(end - start).unwrap()];
                    Region::each(extents, start, end, &mut |region| {
                        collect(&region, extents, &mut out);
                        Ok(())
                    })
                    .unwrap();
                    assert_eq!(
                        out,
                        (start..end).map(Some).collect::<Vec<_>>(),
                        "{extents:?} {start}..{end}"
                    );
                }
            }
        }
    }

    #[test]
    fn unaligned_extents_give_the_same_elements() {
        for extents in [&[8, 3][..], &[3, 8], &[5, 5], &[2, 3, 4], &[12, 2]] {
            for (start, loops) in [
                (0, vec![(6, 1, 4), (4, 6, 1)]),
                (1, vec![(3, 2, 1), (3, 7, 3)]),
                (2, vec![(4, 5, 1), (2, 0, 4)]),
            ] {
                let loops: Vec<Linear> =
                    loops.into_iter().map(|(count, step, to)| Linear { count, step, to }).collect();
                let len =
                    usize::try_from(loops.iter().map(|this| this.count).product::<u64>()).unwrap();
                let mut expected = vec![None; len];
                let whole = Region {
                    at: [start, 0, 0, 0, 0, 0, 0, 0],
                    loops: loops
                        .iter()
                        .map(|&Linear { count, step, to }| Loop { count, dimension: 0, step, to })
                        .collect(),
                    to: 0,
                };
                collect(&whole, &[25], &mut expected);
                let mut out = vec![None; len];
                unflatten(extents, start, 0, loops, &mut |region| {
                    for (dimension, &extent) in extents.iter().enumerate() {
                        assert!(region.range(dimension).1 <= extent);
                    }
                    collect(&region, extents, &mut out);
                    Ok(())
                })
                .unwrap();
                assert_eq!(out, expected, "{extents:?}");
            }
        }
    }

    #[test]
    fn aligned_extents_give_one_region() {
        // The loops of `permute`: one region for any number of heads.
        let mut regions = 0;
        let loops = vec![
            Linear { count: 64, step: 1, to: 2 },
            Linear { count: 2, step: 64, to: 1 },
            Linear { count: 32, step: 128, to: 128 },
        ];
        unflatten(&[4096], 0, 0, loops, &mut |region| {
            regions += 1;
            assert_eq!(region.loops.len(), 3);
            Ok(())
        })
        .unwrap();
        assert_eq!(regions, 1);
    }

    fn stride(count: usize, from: usize, to: usize) -> Stride {
        Stride { count, from, to }
    }

    #[test]
    fn a_matrix_is_transposed() {
        for (rows, columns) in [(1, 1), (3, 5), (40, 33), (64, 100)] {
            let from: Vec<f32> = (0u16..).take(rows * columns).map(f32::from).collect();
            let mut to = vec![0.0; from.len()];
            Out::Floats(&mut to).put_floats(
                &[stride(columns, 1, rows), stride(rows, columns, 1)],
                &from,
                0,
            );
            for row in 0..rows {
                for column in 0..columns {
                    assert_eq!(
                        to[column * rows + row].to_bits(),
                        from[row * columns + column].to_bits()
                    );
                }
            }
        }
    }

    #[test]
    fn atoms_of_any_size_are_copied() {
        for atom in [1, 2, 3, 4, 8, 18] {
            let from: Vec<u8> = (0..=255).cycle().take(6 * atom).collect();
            let mut to = vec![0; 6 * atom];
            Out::Bytes { bytes: &mut to, atom }.put_bytes(
                &[stride(2, 3, 1), stride(3, 1, 2)],
                &from,
                0,
            );
            let expected: Vec<u8> = [0, 3, 1, 4, 2, 5]
                .iter()
                .flat_map(|&i| from[i * atom..][..atom].to_vec())
                .collect();
            assert_eq!(to, expected);
        }
    }

    #[test]
    fn zeros_are_written_along_loops() {
        let mut floats = [1.0; 6];
        let strided = |count, to| Loop { count, dimension: 0, step: 1, to };
        Out::Floats(&mut floats).put_zeros(&[strided(2, 3), strided(2, 1)], 1);
        assert_eq!(floats.map(f32::to_bits), [1.0f32, 0.0, 0.0, 1.0, 0.0, 0.0].map(f32::to_bits));
    }
}

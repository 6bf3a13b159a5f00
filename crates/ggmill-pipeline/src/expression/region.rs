//! Which elements of an array are wanted, and where in the output they go: loops over its
//! dimensions.
//!
//! A view changes the loops and moves nothing. What cannot be said in loops (a range that crosses
//! the parts of a join, a reshape whose dimensions do not line up) becomes several regions.

use ggmill_core::Shape;

use crate::error::Result;

/// The most dimensions an array has.
pub(super) const RANK: usize = Shape::MAX_DIMENSIONS;

/// Elements that are wanted: one place, and loops that lead to the others.
///
/// Everything is counted in *atoms*: elements, or along the first dimension of a quantized array
/// whole blocks.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// Where the first atom is.
    pub(super) at: [u64; RANK],
    /// The others; two loops may run over one dimension. No loop has fewer than two iterations.
    pub(super) loops: Vec<Loop>,
    /// Where in the output the first atom goes.
    pub(super) to: u64,
}

/// One loop of a [`Region`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    pub(super) count: u64,
    pub(super) dimension: usize,
    /// How far each iteration moves along the dimension; 0 repeats the same.
    pub(super) step: u64,
    /// How far it moves in the output.
    pub(super) to: u64,
}

/// A loop over an array seen as one long row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    pub(super) count: u64,
    pub(super) step: u64,
    pub(super) to: u64,
}

impl Region {
    /// All atoms of an array with these extents from `start` on, up to `end`, in order.
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

    /// How many atoms are wanted.
    pub(super) fn atoms(&self) -> u64 {
        self.loops.iter().map(|this| this.count).product()
    }

    /// Sorts the loops by where they lead in the output, and gives the same atoms going there one
    /// after the other, from the beginning on.
    pub(super) fn pack(&mut self) -> Self {
        self.loops.sort_by_key(|this| this.to);
        let mut packed = Self { to: 0, ..self.clone() };
        pack(&mut packed.loops, 1);
        packed
    }

    /// Whether the atoms go one after the other, in the order of the loops.
    pub(super) fn is_packed(&self) -> bool {
        let mut to = 1;
        self.loops.iter().all(|this| {
            let expected = to;
            to *= this.count;
            this.to == expected
        })
    }

    /// The range along a dimension that the loops stay in: the first index, and the one after the
    /// last.
    pub(super) fn range(&self, dimension: usize) -> (u64, u64) {
        let reach: u64 = self
            .loops
            .iter()
            .filter(|this| this.dimension == dimension)
            .map(|this| (this.count - 1) * this.step)
            .sum();
        (self.at[dimension], self.at[dimension] + reach + 1)
    }

    /// The region with the array seen as one long row.
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

    /// The region in two halves, along this loop.
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

    /// Calls `each` with the parts of the region that lie between neighboring ends along a
    /// dimension: the number of the part and its region, counted from where the part begins. `ends`
    /// are where the parts end, in order.
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
        let over = |(_, this): &(usize, &Loop)| this.dimension == dimension && this.step > 0;
        let Some((number, _)) =
            self.loops.iter().enumerate().filter(over).max_by_key(|(_, this)| this.step)
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
            // How many iterations stay within the part; with other loops inside, one at a time.
            let left = if several {
                1
            } else {
                (ends[part] - region.at[dimension]).div_ceil(step).min(count - done)
            };
            if left > 1 {
                region.loops.push(Loop { count: left, dimension, step, to });
            }
            done += left;
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

/// Has the loops lead one after the other, in order, over atoms of so many; says how many they lead
/// over in all.
pub(super) fn pack(loops: &mut [Loop], atoms: u64) -> u64 {
    loops.iter_mut().fold(atoms, |to, this| {
        this.to = to;
        to * this.count
    })
}

/// How far apart neighbors along each dimension are.
pub(super) fn strides(extents: &[u64]) -> [u64; RANK] {
    let mut strides = [0; RANK];
    let mut stride = 1;
    for (this, extent) in strides.iter_mut().zip(extents) {
        *this = stride;
        stride *= extent;
    }
    strides
}

/// Gives linear loops the dimensions of an array with these extents, as one region where they line
/// up and as several where they do not.
pub(super) fn unflatten(
    extents: &[u64],
    start: u64,
    to: u64,
    mut loops: Vec<Linear>,
    each: &mut dyn FnMut(Region) -> Result<()>,
) -> Result<()> {
    join(&mut loops);
    place(extents, start, to, loops, each)
}

/// The same for loops that stay as they are.
fn place(
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
        // It leaves the dimension. Where it does so at regular intervals, it is two loops.
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
            place(extents, start, to_start, parts, each)?;
            done += rounds * inside;
        }
        return Ok(());
    }
    each(region)
}

/// Sorts loops, smallest step first, and makes one of two where the second goes on where the first
/// ends.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of a region: for each place in the output the index into the array.
    fn wanted(region: &Region, extents: &[u64], out: &mut [Option<u64>]) {
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
    fn a_range_is_itself_in_any_extents() {
        for extents in [&[24][..], &[6, 4], &[4, 3, 2], &[1, 24, 1], &[5, 5]] {
            let all: u64 = extents.iter().product();
            for start in 0..all {
                for end in start + 1..=all {
                    let mut out = vec![None; usize::try_from(end - start).unwrap()];
                    Region::each(extents, start, end, &mut |region| {
                        wanted(&region, extents, &mut out);
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
    fn loops_are_kept_through_extents_that_do_not_line_up() {
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
                wanted(&whole, &[25], &mut expected);
                let mut out = vec![None; len];
                unflatten(extents, start, 0, loops, &mut |region| {
                    for (dimension, &extent) in extents.iter().enumerate() {
                        assert!(region.range(dimension).1 <= extent);
                    }
                    wanted(&region, extents, &mut out);
                    Ok(())
                })
                .unwrap();
                assert_eq!(out, expected, "{extents:?}");
            }
        }
    }

    #[test]
    fn matching_extents_need_no_cutting() {
        // Heads of halves, as rows are permuted: one region however many there are.
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
}

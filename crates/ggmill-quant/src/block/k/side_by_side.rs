//! The searches of many super-blocks at once, for formats that differ in what they do with what is
//! found.

use super::SUPER;
use crate::arch::Pair;
use crate::lanes::{
    AffineLanes, Floats, Lanes, MOST, affine, columns, importance, positive, spread_out,
    sums_of_squares,
};
use crate::numeric::nearest;
use crate::search::Steps;

/// The result for each group of up to [`MOST`] super-blocks, group after group.
pub(super) struct Found {
    pub(super) scales: [f32; 16 * MOST],
    pub(super) mins: [f32; 16 * MOST],
    /// The weights' sums, where there is importance.
    pub(super) sums: [f32; 16 * MOST],
    inverses: [f32; 16 * MOST],
    offsets: [f32; 16 * MOST],
}

/// How values are weighed.
#[derive(Clone, Copy)]
pub(super) enum Weights<'a> {
    /// By their magnitudes.
    Magnitude,
    /// By their magnitudes above the RMS of their group.
    AboveAverage,
    /// By importance, with the spread of each super-block: its sum of squares times a factor, over
    /// 256.
    Importance(&'a [[f32; SUPER]], f32),
}

/// How many super-blocks are searched at once.
pub(super) const fn at_once<L: Lanes>() -> usize {
    2 * L::WIDTH
}

/// Scales and minima of at most [`at_once`] super-blocks, in groups of `N`; `None` where the scalar
/// code has to do it.
#[inline(always)]
pub(super) fn search<L: Lanes, const N: usize>(
    lanes: L,
    values: &[[f32; SUPER]],
    weights: Weights<'_>,
    top: i32,
    steps: Steps,
) -> Option<Found> {
    let lanes = Pair(lanes);
    let zero = lanes.splat(0.0);
    let none = [0.0; 16 * MOST];
    let mut found = Found { scales: none, mins: none, sums: none, inverses: none, offsets: none };
    let (groups, _) = values.as_flattened().as_chunks::<N>();
    let spreads = match weights {
        Weights::Importance(_, factor) => {
            sums_of_squares(lanes, values).map(|sum| factor * sum / 256.0)
        }
        _ => [0.0; MOST],
    };
    for first in (0..groups.len()).step_by(2 * L::WIDTH) {
        let x = columns(lanes, groups, first);
        let w = match weights {
            Weights::Magnitude => above(zero, &x),
            Weights::AboveAverage => {
                let mut squares = zero;
                for &x in &x {
                    squares = squares + x * x;
                }
                let average = (squares / lanes.splat(N as f32)).sqrt();
                above(average, &x)
            }
            Weights::Importance(weights, _) => {
                let w = columns(lanes, weights.as_flattened().as_chunks::<N>().0, first);
                let [spread] = spread_out(lanes, |lane, _| {
                    spreads[((first + lane) / (SUPER / N)).min(MOST - 1)]
                });
                let w = importance(&x, &w, spread);
                let mut sum = zero;
                for &w in &w {
                    sum = sum + w;
                }
                sum.store(&mut found.sums[first..]);
                w
            }
        };
        let AffineLanes { scale, min, inverse, offset } = affine(lanes, &x, &w, top, steps)?;
        scale.store(&mut found.scales[first..]);
        min.store(&mut found.mins[first..]);
        inverse.store(&mut found.inverses[first..]);
        offset.store(&mut found.offsets[first..]);
    }
    Some(found)
}

/// Magnitudes, each with something added.
#[inline(always)]
fn above<F: Floats, const N: usize>(add: F, x: &[F; N]) -> [F; N] {
    let mut out = *x;
    for x in &mut out {
        *x = add + x.abs();
    }
    out
}

/// One scale for the scales (or minima) of each super-block, `N` to a super-block, and the levels
/// they then have.
#[inline(always)]
pub(super) fn scales_of_scales<L: Lanes, const N: usize>(
    lanes: L,
    scales: &[f32],
    sums: &[f32],
    top: i32,
) -> Option<([f32; MOST], [[u8; N]; MOST])> {
    let lanes = Pair(lanes);
    let x: [_; N] = spread_out(lanes, |lane, i| scales[N * lane + i]);
    let w: [_; N] = spread_out(lanes, |lane, i| sums[N * lane + i]);
    let (scale, levels) = positive(lanes, &x, top, &w)?;
    let mut out = ([0.0; MOST], [[0; N]; MOST]);
    scale.store(&mut out.0);
    for (i, level) in levels.into_iter().enumerate() {
        let mut row = [0; MOST];
        level.store_bytes(&mut row);
        for (out, level) in out.1.iter_mut().zip(row) {
            out[i] = level;
        }
    }
    Some(out)
}

impl Found {
    /// The levels the search had given a group, for the case that its scale is stored as 0.
    pub(super) fn levels(&self, group: usize, values: &[f32], top: i32, levels: &mut [u8]) {
        for (level, value) in levels.iter_mut().zip(values) {
            *level =
                nearest(self.inverses[group] * (value - self.offsets[group])).clamp(0, top) as u8;
        }
    }
}

/// Levels for a scale and a minimum that are final.
#[inline(always)]
pub(super) fn assign<L: Lanes>(
    lanes: L,
    values: &[f32],
    scale: f32,
    min: f32,
    top: i32,
    levels: &mut [u8],
) {
    let (scale, min) = (lanes.splat(scale), lanes.splat(min));
    for (values, levels) in values.chunks_exact(L::WIDTH).zip(levels.chunks_exact_mut(L::WIDTH)) {
        ((lanes.load(values) + min) / scale).nearest(0, top).store_bytes(levels);
    }
}

//! Searches for the scales of many super-blocks at once, one group per lane.
//!
//! Q2_K, Q4_K and Q5_K have a scale and a minimum per group ([`search_affine`]); Q3_K and Q6_K have
//! levels around zero ([`search_symmetric`], [`search_by_moves`]).

use super::QK_K;
use crate::arch::Pair;
use crate::lanes::{
    AffineLanes, Floats, Lanes, MAX_LANES, Mask, MovedGroups, affine, columns, columns_from,
    importance, positive, sums_of_squares, symmetric, symmetric_by_moves,
};
use crate::numeric::nearest_int;
use crate::search::Steps;

/// The result of [`search_affine`], with one element for each group of up to [`MAX_LANES`]
/// super-blocks.
pub(super) struct AffineGroups {
    pub(super) scales: [f32; 16 * MAX_LANES],
    pub(super) mins: [f32; 16 * MAX_LANES],
    /// The sum of the weights of each group, with importance.
    pub(super) sums: [f32; 16 * MAX_LANES],
    inverses: [f32; 16 * MAX_LANES],
    offsets: [f32; 16 * MAX_LANES],
}

/// The weight of each value x in [`search_affine`].
#[derive(Clone, Copy)]
pub(super) enum AffineWeights<'a> {
    /// |x|.
    Magnitude,
    /// The RMS of the group plus |x|.
    RmsPlusMagnitude,
    /// importance · √(σ² + x²), where σ² is the factor times the mean square of the super-block.
    Importance(&'a [[f32; QK_K]], f32),
}

/// The number of super-blocks that are searched at once.
pub(super) const fn batch_len<L: Lanes>() -> usize {
    2 * L::WIDTH
}

/// Searches scales and minima of at most [`batch_len`] super-blocks in groups of `N`. Returns
/// `None` if the scalar code must encode them.
#[inline(always)]
pub(super) fn search_affine<L: Lanes, const N: usize>(
    lanes: L,
    values: &[[f32; QK_K]],
    weights: AffineWeights<'_>,
    top: i32,
    steps: Steps,
) -> Option<AffineGroups> {
    let lanes = Pair(lanes);
    let zero = lanes.splat(0.0);
    let none = [0.0; 16 * MAX_LANES];
    let mut found =
        AffineGroups { scales: none, mins: none, sums: none, inverses: none, offsets: none };
    let (groups, _) = values.as_flattened().as_chunks::<N>();
    let sigma2s = match weights {
        AffineWeights::Importance(_, factor) => {
            sums_of_squares(lanes, values).map(|sum| factor * sum / 256.0)
        }
        _ => [0.0; MAX_LANES],
    };
    for first in (0..groups.len()).step_by(2 * L::WIDTH) {
        let x = columns(lanes, groups, first);
        let w = match weights {
            AffineWeights::Magnitude => add_magnitudes(zero, &x),
            AffineWeights::RmsPlusMagnitude => {
                let mut squares = zero;
                for &x in &x {
                    squares = squares + x * x;
                }
                let average = (squares / lanes.splat(N as f32)).sqrt();
                add_magnitudes(average, &x)
            }
            AffineWeights::Importance(weights, _) => {
                let w = columns(lanes, weights.as_flattened().as_chunks::<N>().0, first);
                let [sigma2] = columns_from(lanes, |lane, _| {
                    sigma2s[((first + lane) / (QK_K / N)).min(MAX_LANES - 1)]
                });
                let w = importance(&x, &w, sigma2);
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

/// Returns `add` plus the magnitude of each value.
#[inline(always)]
fn add_magnitudes<F: Floats, const N: usize>(add: F, x: &[F; N]) -> [F; N] {
    let mut out = *x;
    for x in &mut out {
        *x = add + x.abs();
    }
    out
}

/// Returns a super-scale for the `N` scales (or minima) of each super-block, and their levels.
#[inline(always)]
pub(super) fn scales_of_scales<L: Lanes, const N: usize>(
    lanes: L,
    scales: &[f32],
    sums: &[f32],
    top: i32,
) -> Option<([f32; MAX_LANES], [[u8; N]; MAX_LANES])> {
    let lanes = Pair(lanes);
    let x: [_; N] = columns_from(lanes, |lane, i| scales[N * lane + i]);
    let w: [_; N] = columns_from(lanes, |lane, i| sums[N * lane + i]);
    let (scale, levels) = positive(lanes, &x, top, &w)?;
    let mut out = ([0.0; MAX_LANES], [[0; N]; MAX_LANES]);
    scale.store(&mut out.0);
    for (i, level) in levels.into_iter().enumerate() {
        let mut row = [0; MAX_LANES];
        level.store_bytes(&mut row);
        for (out, level) in out.1.iter_mut().zip(row) {
            out[i] = level;
        }
    }
    Some(out)
}

impl AffineGroups {
    /// Fills in the levels of the search for a group whose scale is stored as 0.
    pub(super) fn levels(&self, group: usize, values: &[f32], top: i32, levels: &mut [u8]) {
        for (level, value) in levels.iter_mut().zip(values) {
            *level = nearest_int(self.inverses[group] * (value - self.offsets[group])).clamp(0, top)
                as u8;
        }
    }
}

/// Chooses levels for a stored scale and minimum.
#[inline(always)]
pub(super) fn assign_affine<L: Lanes>(
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

/// The maximum number of rounds of [`search_by_moves`].
const ROUNDS: usize = 5;

/// The result of [`search_symmetric`] and [`search_by_moves`], with one element for each group of
/// 16 of up to [`MAX_LANES`] super-blocks.
pub(super) struct SymmetricGroups {
    pub(super) scales: [f32; 16 * MAX_LANES],
    /// The sum of the weights of each group, for [`SymmetricWeights::Importance`].
    sums: [f32; 16 * MAX_LANES],
    levels: Levels,
}

/// The levels of a search.
enum Levels {
    /// The inverse scale of each group; if it is 0, the levels are 0.
    Inverses([f32; 16 * MAX_LANES]),
    /// The levels themselves, indexed by value and group.
    Stored([[u8; 16 * MAX_LANES]; 16]),
}

/// The weight of each value x in [`search_symmetric`].
#[derive(Clone, Copy)]
pub(super) enum SymmetricWeights<'a> {
    /// x².
    Square,
    /// The importance of the column.
    Column(&'a [[f32; QK_K]]),
    /// importance · √(σ² + x²), where σ² is twice the mean square of the super-block.
    Importance(&'a [[f32; QK_K]]),
}

/// Searches the scales of at most [`batch_len`] super-blocks.
#[inline(always)]
pub(super) fn search_symmetric<L: Lanes>(
    lanes: L,
    values: &[[f32; QK_K]],
    weights: SymmetricWeights<'_>,
    half: i32,
) -> SymmetricGroups {
    let lanes = Pair(lanes);
    let mut found = SymmetricGroups {
        scales: [0.0; 16 * MAX_LANES],
        sums: [0.0; 16 * MAX_LANES],
        levels: Levels::Inverses([0.0; 16 * MAX_LANES]),
    };
    let Levels::Inverses(inverses) = &mut found.levels else { return found };
    let (groups, _) = values.as_flattened().as_chunks::<16>();
    let sigma2s = match weights {
        SymmetricWeights::Importance(_) => {
            sums_of_squares(lanes, values).map(|sum| 2.0 * sum / 256.0)
        }
        _ => [0.0; MAX_LANES],
    };
    for first in (0..groups.len()).step_by(2 * L::WIDTH) {
        let x = columns(lanes, groups, first);
        let w = match weights {
            SymmetricWeights::Square => squares(&x),
            SymmetricWeights::Column(weights) | SymmetricWeights::Importance(weights) => {
                columns(lanes, weights.as_flattened().as_chunks::<16>().0, first)
            }
        };
        let w = if let SymmetricWeights::Importance(_) = weights {
            let [sigma2] =
                columns_from(lanes, |lane, _| sigma2s[((first + lane) / 16).min(MAX_LANES - 1)]);
            let w = importance(&x, &w, sigma2);
            let mut sum = lanes.splat(0.0);
            for &w in &w {
                sum = sum + w;
            }
            sum.store(&mut found.sums[first..]);
            w
        } else {
            w
        };
        let (scale, inverse) = symmetric(lanes, &x, half, &w);
        scale.store(&mut found.scales[first..]);
        inverse.store(&mut inverses[first..]);
    }
    found
}

/// Searches scales by changing single levels, with weights x². The result replaces the content of
/// `found`, which must be made by [`SymmetricGroups::with_stored_levels`].
#[inline(always)]
pub(super) fn search_by_moves<L: Lanes>(
    lanes: L,
    values: &[[f32; QK_K]],
    half: i32,
    found: &mut SymmetricGroups,
) {
    let (groups, _) = values.as_flattened().as_chunks::<16>();
    let Levels::Stored(levels) = &mut found.levels else { return };
    // Four groups in five do not change after one round. The others are collected and searched
    // again: in their original vectors, each of them would keep a whole vector busy.
    let mut again = Vec::with_capacity(groups.len());
    let mut places = Vec::with_capacity(groups.len());
    for start in (0..groups.len()).step_by(AT_ONCE * L::WIDTH) {
        let moves = moved(lanes, groups, start, half, 1);
        for (vector, moved) in moves.into_iter().enumerate() {
            let first = start + vector * L::WIDTH;
            moved.scale.store(&mut found.scales[first..]);
            for (level, stored) in moved.levels.into_iter().zip(levels.iter_mut()) {
                level.store_bytes(&mut stored[first..]);
            }
            let mut unsettled = moved.unsettled.bits();
            while unsettled != 0 {
                let lane = first + unsettled.trailing_zeros() as usize;
                unsettled &= unsettled - 1;
                if lane < groups.len() {
                    again.push(groups[lane]);
                    places.push(lane);
                }
            }
        }
    }
    for start in (0..again.len()).step_by(AT_ONCE * L::WIDTH) {
        let moves = moved(lanes, &again, start, half, ROUNDS);
        for (moved, places) in moves.into_iter().zip(places[start..].chunks(L::WIDTH)) {
            let mut scales = [0.0; MAX_LANES];
            moved.scale.store(&mut scales);
            for (&place, scale) in places.iter().zip(scales) {
                found.scales[place] = scale;
            }
            for (level, stored) in moved.levels.into_iter().zip(levels.iter_mut()) {
                let mut row = [0; MAX_LANES];
                level.store_bytes(&mut row);
                for (&place, level) in places.iter().zip(row) {
                    stored[place] = level;
                }
            }
        }
    }
}

/// The number of vectors of groups that are searched at once. It divides the number of vectors in
/// [`MAX_LANES`] super-blocks.
const AT_ONCE: usize = 4;

/// Returns the scales and levels of [`AT_ONCE`] vectors of groups from `start` on, after `rounds`
/// rounds.
#[inline(always)]
fn moved<L: Lanes>(
    lanes: L,
    groups: &[[f32; 16]],
    start: usize,
    half: i32,
    rounds: usize,
) -> [MovedGroups<L::F, 16>; AT_ONCE] {
    let mut x = [[lanes.splat(0.0); 16]; AT_ONCE];
    for (vector, x) in x.iter_mut().enumerate() {
        *x = columns(lanes, groups, start + vector * L::WIDTH);
    }
    symmetric_by_moves(lanes, x, half, rounds)
}

#[inline(always)]
fn squares<F: Floats, const N: usize>(x: &[F; N]) -> [F; N] {
    let mut out = *x;
    for x in &mut out {
        *x = *x * *x;
    }
    out
}

/// Returns the first of the sixteen scales of each super-block with the greatest magnitude.
#[inline(always)]
pub(super) fn extreme_scales<L: Lanes>(lanes: L, found: &SymmetricGroups) -> [f32; MAX_LANES] {
    let lanes = Pair(lanes);
    let mut extreme = lanes.splat(0.0);
    for x in columns(lanes, found.scales.as_chunks::<16>().0, 0) {
        extreme = x.select(x.abs().gt(extreme.abs()), extreme);
    }
    let mut out = [0.0; MAX_LANES];
    extreme.store(&mut out);
    out
}

/// Returns a super-scale for the sixteen scales of each super-block, and their levels.
#[inline(always)]
pub(super) fn scale_of_scales<L: Lanes>(
    lanes: L,
    found: &SymmetricGroups,
    half: i32,
) -> ([f32; MAX_LANES], [[u8; 16]; MAX_LANES]) {
    let lanes = Pair(lanes);
    let x: [_; 16] = columns_from(lanes, |lane, i| found.scales[16 * lane + i]);
    let w: [_; 16] = columns_from(lanes, |lane, i| found.sums[16 * lane + i]);
    let (scale, inverse) = symmetric(lanes, &x, half, &w);
    let (mut scales, mut inverses) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
    scale.store(&mut scales);
    inverse.store(&mut inverses);
    let mut levels = [[0; 16]; MAX_LANES];
    for (block, levels) in levels.iter_mut().enumerate() {
        let (of_groups, sums) =
            (&found.scales[16 * block..][..16], &found.sums[16 * block..][..16]);
        if of_groups.iter().all(|scale| scale.is_finite()) {
            multiply(of_groups, inverses[block], half, levels);
        } else {
            // Sums have overflowed. Only the scalar code rounds infinities as the reference does.
            scales[block] = crate::search::symmetric(of_groups, half, Some(sums), levels);
        }
    }
    (scales, levels)
}

impl SymmetricGroups {
    /// Returns an empty result for [`search_by_moves`]. It is large, so callers reuse it.
    pub(super) const fn with_stored_levels() -> Self {
        Self {
            scales: [0.0; 16 * MAX_LANES],
            sums: [0.0; 16 * MAX_LANES],
            levels: Levels::Stored([[0; 16 * MAX_LANES]; 16]),
        }
    }

    /// Fills in the levels of the search for a group whose scale is stored as 0.
    fn levels(&self, group: usize, values: &[f32], half: i32, levels: &mut [u8]) {
        match &self.levels {
            Levels::Inverses(inverses) => multiply(values, inverses[group], half, levels),
            Levels::Stored(stored) => {
                levels.iter_mut().zip(stored).for_each(|(level, stored)| *level = stored[group]);
            }
        }
    }

    /// Chooses levels for the stored scales of a super-block. Groups whose scale is 0 keep the
    /// levels of the search.
    #[inline(always)]
    pub(super) fn assign<L: Lanes>(
        &self,
        lanes: L,
        index: usize,
        values: &[f32; QK_K],
        scales: [f32; 16],
        half: i32,
    ) -> [u8; QK_K] {
        let mut levels = [0; QK_K];
        let add = lanes.splat(half as f32);
        let ((values, _), (groups, _)) = (values.as_chunks::<16>(), levels.as_chunks_mut::<16>());
        for group in 0..16 {
            let (values, levels) = (&values[group], &mut groups[group]);
            if scales[group] == 0.0 {
                self.levels(16 * index + group, values, half, levels);
                continue;
            }
            let scale = lanes.splat(scales[group]);
            for start in (0..16).step_by(L::WIDTH) {
                ((lanes.load(&values[start..]) / scale).nearest(-half, half - 1) + add)
                    .store_bytes(&mut levels[start..]);
            }
        }
        levels
    }
}

/// Sets the levels of a group for an inverse scale.
fn multiply(values: &[f32], inverse: f32, half: i32, levels: &mut [u8]) {
    for (level, value) in levels.iter_mut().zip(values) {
        *level = if inverse == 0.0 {
            0
        } else {
            (nearest_int(inverse * value).clamp(-half, half - 1) + half) as u8
        };
    }
}

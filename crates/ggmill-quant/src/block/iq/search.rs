//! The search for the scale and the grid points of a group of magnitudes, in scalar code.
//!
//! It repeats the reference operation by operation; the order of its sums decides which candidate
//! wins. This is the definition; [`search_lanes`](super::search_lanes) does the same with several
//! candidates at once.

use super::grid::{Grid, GridLookup, Neighbors, bits};
use super::iq1::{Split, Splits, ascending};
use crate::block::BITS_TO_BYTES;
use crate::numeric::nearest_int;

/// Which points of a group are chosen again for the best scale of all candidates.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rechoose {
    /// The points whose rounded levels were off the grid.
    OffGrid,
    /// All points, if the rounded levels of one were off the grid.
    AllIfAnyOffGrid,
    /// All points.
    All,
}

/// The values of the levels before scaling.
pub(super) const ODD_LEVELS: [f32; 8] = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];

/// How groups are searched: in scalar code or with lanes. The results are equal.
pub(super) trait Strategy: Copy {
    /// Does what [`Search::run`] does.
    fn run<const D: usize, const N: usize, const P: usize>(
        self,
        search: &Search<D>,
        group: &mut Group<N>,
        weights: &[f32; N],
        extent: f32,
        scale: f32,
    ) -> (f32, [u16; P]);

    /// Returns the index of the neighbor with the least weighted error, the first of equals.
    /// `quants` are the values of the levels before scaling.
    fn nearest_of<const D: usize>(
        self,
        near: Neighbors<'_>,
        values: &[f32; D],
        weights: &[f32; D],
        scale: f32,
        quants: &[f32; 8],
    ) -> u16;

    /// Does what [`ascending`] does.
    fn ascending<const N: usize>(self, values: &[f32; N]) -> [usize; N];

    /// Returns the best of the [`Splits`], the first of equals, or `None` if none gives a scale.
    fn best_split<const M: usize, const S: usize>(
        self,
        splits: &impl Splits<M, S>,
    ) -> Option<Split>;
}

/// The scalar search, which defines the result.
#[derive(Clone, Copy)]
pub(super) struct ScalarSearch;

impl Strategy for ScalarSearch {
    fn run<const D: usize, const N: usize, const P: usize>(
        self,
        search: &Search<D>,
        group: &mut Group<N>,
        weights: &[f32; N],
        extent: f32,
        scale: f32,
    ) -> (f32, [u16; P]) {
        search.run(group, weights, extent, scale)
    }

    fn nearest_of<const D: usize>(
        self,
        near: Neighbors<'_>,
        values: &[f32; D],
        weights: &[f32; D],
        scale: f32,
        quants: &[f32; 8],
    ) -> u16 {
        // If no error is a number below `f32::MAX`, the reference aborts or reads out of bounds.
        // The nearest neighbor is a defined result.
        let mut found = near.indices[0];
        let mut least = f32::MAX;
        for (&index, &word) in near.indices.iter().zip(near.words) {
            let mut error = 0.0;
            for (place, (&value, &weight)) in (0..).zip(values.iter().zip(weights)) {
                let level = word >> (place * bits::<D>()) & ((1 << bits::<D>()) - 1);
                let diff = scale * quants[usize::from(level)] - value;
                error += weight * diff * diff;
            }
            if error < least {
                least = error;
                found = index;
            }
        }
        found
    }

    fn ascending<const N: usize>(self, values: &[f32; N]) -> [usize; N] {
        ascending(values)
    }

    fn best_split<const M: usize, const S: usize>(
        self,
        splits: &impl Splits<M, S>,
    ) -> Option<Split> {
        let mut best = f32::MIN;
        let mut chosen = None;
        for first in 0..M {
            for second in first..M {
                for (shifts, fit) in splits.fits(first, second).into_iter().enumerate() {
                    if fit.beats(best) {
                        let scale = fit.qx / fit.qq;
                        best = scale * fit.qx;
                        chosen = Some(Split { first, second, shifts, scale });
                    }
                }
            }
        }
        chosen
    }
}

/// The parameters of a type's search. Level `l` has the value 2·l + 1.
pub(super) struct Search<const D: usize> {
    pub(super) grid: &'static Grid<D>,
    /// The number of candidates on each side of the middle one, which maps the group's extent to
    /// the top level.
    pub(super) reach: i32,
    /// The distance between candidates.
    pub(super) width: f32,
    pub(super) rechoose: Rechoose,
}

/// Σ w·x·q and Σ w·q², whose quotient is the best scale for given points.
#[derive(Clone, Copy)]
pub(super) struct Fit {
    pub(super) xq: f32,
    pub(super) qq: f32,
}

/// The best candidate so far and its points.
pub(super) struct Best<const P: usize> {
    pub(super) scale: f32,
    /// The scale times Σ w·x·q.
    value: f32,
    pub(super) indices: [u16; P],
    pub(super) off: [bool; P],
}

impl<const P: usize> Best<P> {
    #[inline(always)]
    pub(super) fn beaten_by(&self, fit: Fit) -> bool {
        fit.qq > 0.0 && fit.xq * fit.xq > self.value * fit.qq
    }

    #[inline(always)]
    pub(super) fn replace(&mut self, fit: Fit, indices: [u16; P], off: [bool; P]) {
        self.scale = fit.xq / fit.qq;
        self.value = self.scale * fit.xq;
        self.indices = indices;
        self.off = off;
    }
}

impl<const D: usize> Search<D> {
    /// Returns the scale, never negative, and the indices of the `P` points of a group. If the best
    /// scale is negative, flips the group's signs instead.
    ///
    /// `extent` is the magnitude that the middle candidate maps to the top level. `scale` is the
    /// result if no candidate gives a scale.
    pub(super) fn run<const N: usize, const P: usize>(
        &self,
        group: &mut Group<N>,
        weights: &[f32; N],
        extent: f32,
        scale: f32,
    ) -> (f32, [u16; P]) {
        let roots = weights.map(f32::sqrt);
        let mut best = self.initial_best(scale);
        for step in -self.reach..=self.reach {
            let inverse = self.numerator(step) / extent;
            let (mut trial, mut off) = ([0; P], [false; P]);
            for point in 0..P {
                (trial[point], off[point]) = self.choose(
                    ScalarSearch,
                    &group.magnitudes,
                    &roots,
                    point,
                    inverse,
                    1.0 / inverse,
                );
            }
            let fit = self.fit(&group.magnitudes, weights, &trial);
            if best.beaten_by(fit) {
                best.replace(fit, trial, off);
            }
        }
        self.finish(ScalarSearch, group, weights, &roots, &best)
    }

    /// Returns the initial best, before any candidate.
    #[inline(always)]
    pub(super) fn initial_best<const P: usize>(&self, scale: f32) -> Best<P> {
        Best {
            scale,
            value: 0.0,
            indices: [0; P],
            off: [self.rechoose == Rechoose::AllIfAnyOffGrid; P],
        }
    }

    /// Returns the level that a candidate maps the extent to.
    #[inline(always)]
    pub(super) fn numerator(&self, step: i32) -> f32 {
        f32::from(2 * self.grid.levels - 1) + step as f32 * self.width
    }

    /// Chooses the points again for the best scale, and makes the scale positive.
    #[inline(always)]
    pub(super) fn finish<const N: usize, const P: usize>(
        &self,
        strategy: impl Strategy,
        group: &mut Group<N>,
        weights: &[f32; N],
        roots: &[f32; N],
        best: &Best<P>,
    ) -> (f32, [u16; P]) {
        let Best { mut scale, mut indices, off, .. } = *best;
        if scale > 0.0 && (self.rechoose == Rechoose::All || off.contains(&true)) {
            let inverse = 1.0 / scale;
            for point in 0..P {
                if off[point] || self.rechoose != Rechoose::OffGrid {
                    indices[point] =
                        self.choose(strategy, &group.magnitudes, roots, point, inverse, scale).0;
                }
            }
            let fit = self.fit(&group.magnitudes, weights, &indices);
            if fit.qq > 0.0 {
                scale = fit.xq / fit.qq;
            }
        }
        if scale < 0.0 {
            scale = -scale;
            group.signs = group.signs.map(|signs| !signs);
        }
        // Sums have overflowed. The reference aborts here.
        if scale.is_nan() {
            scale = 0.0;
        }
        (scale, indices)
    }

    /// Returns the index of the grid point for the weights of point `point`, and whether their
    /// rounded levels are off the grid.
    #[inline(always)]
    fn choose<const N: usize>(
        &self,
        strategy: impl Strategy,
        magnitudes: &[f32; N],
        roots: &[f32; N],
        point: usize,
        inverse: f32,
        scale: f32,
    ) -> (u16, bool) {
        let magnitudes: &[f32; D] = point_values(magnitudes, point);
        let top = i32::from(self.grid.levels) - 1;
        let levels = magnitudes
            .map(|magnitude| nearest_int(0.5 * (inverse * magnitude - 1.0)).clamp(0, top) as u8);
        match self.grid.index().lookup(self.grid.number(&levels)) {
            GridLookup::OnGrid(index) => (index, false),
            GridLookup::OffGrid(near) => (
                strategy.nearest_of(
                    near,
                    magnitudes,
                    point_values(roots, point),
                    scale,
                    &ODD_LEVELS,
                ),
                true,
            ),
        }
    }

    #[inline(always)]
    fn fit<const N: usize, const P: usize>(
        &self,
        magnitudes: &[f32; N],
        weights: &[f32; N],
        indices: &[u16; P],
    ) -> Fit {
        let mut fit = Fit { xq: 0.0, qq: 0.0 };
        for (point, &index) in indices.iter().enumerate() {
            let (magnitudes, weights): (&[f32; D], &[f32; D]) =
                (point_values(magnitudes, point), point_values(weights, point));
            for ((&level, &magnitude), &weight) in
                self.grid.points[usize::from(index)].iter().zip(magnitudes).zip(weights)
            {
                let quant = f32::from(2 * level + 1);
                fit.xq += weight * magnitude * quant;
                fit.qq += weight * quant * quant;
            }
        }
        fit
    }
}

/// Returns the `D` values of a group that belong to one point.
#[inline(always)]
pub(super) fn point_values<const N: usize, const D: usize>(
    values: &[f32; N],
    point: usize,
) -> &[f32; D] {
    &values.as_chunks().0[point]
}

/// A group of weights to be rounded: magnitudes for the grid, and a byte of signs for every eight.
pub(super) struct Group<const N: usize> {
    /// The magnitudes for the grid to approximate. With [`even_signs`](Group::even_signs), one in
    /// eight may be negative.
    pub(super) magnitudes: [f32; N],
    /// Bit `i` of byte `b` is set if weight `8·b + i` is negative. Bytes beyond the group are 0.
    pub(super) signs: [u8; 4],
}

impl<const N: usize> Group<N> {
    /// Separates the magnitudes and the signs of a group.
    #[inline(always)]
    pub(super) fn any_signs(values: &[f32; N]) -> Self {
        let mut group = Self { magnitudes: *values, signs: [0; 4] };
        for (index, magnitude) in group.magnitudes.iter_mut().enumerate() {
            // Not `abs`: a negative zero stays negative and does not set a sign. No branch, because
            // signs are unpredictable.
            let negative = *magnitude < 0.0;
            *magnitude = if negative { -*magnitude } else { *magnitude };
            group.signs[index / 8] |= u8::from(negative) << (index % 8);
        }
        group
    }

    /// Separates magnitudes and signs with an even number of negative signs in every eight, so that
    /// seven determine the eighth. If the number is odd, flips the sign of the weight with the
    /// least error.
    #[inline(always)]
    pub(super) fn even_signs(values: &[f32; N], weights: &[f32; N]) -> Self {
        let mut group = Self::any_signs(values);
        for (byte, signs) in group.signs[..N / 8].iter_mut().enumerate() {
            if !signs.count_ones().is_multiple_of(2) {
                let cost = |index: usize| weights[index] * values[index] * values[index];
                let first = 8 * byte;
                let mut least = (first, cost(first));
                for index in first + 1..first + 8 {
                    let cost = cost(index);
                    if cost < least.1 {
                        least = (index, cost);
                    }
                }
                group.magnitudes[least.0] = -group.magnitudes[least.0];
                *signs ^= 1 << (least.0 - first);
            }
        }
        group
    }

    /// Returns the greatest magnitude.
    #[inline(always)]
    pub(super) fn max(&self) -> f32 {
        // Eight at a time: a maximum does not depend on the order.
        let (eights, _) = self.magnitudes.as_chunks::<8>();
        let mut most = eights[0];
        for eight in eights {
            for (most, &value) in most.iter_mut().zip(eight) {
                *most = if *most > value { *most } else { value };
            }
        }
        most.iter().fold(most[0], |max, &value| if max > value { max } else { value })
    }
}

/// Completes seven signs to eight with an even number of negative ones.
pub(super) const fn eighth_sign(seven: u8) -> u8 {
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// Does what [`eighth_sign`] does for four times seven signs, the first lowest.
#[inline(always)]
pub(super) fn eighth_signs(sevens: u32) -> u32 {
    let spread = sevens & 0x7f
        | (sevens & 0x3f80) << 1
        | (sevens & 0x001f_c000) << 2
        | (sevens & 0x0fe0_0000) << 3;
    let parity = spread ^ spread >> 4;
    let parity = parity ^ parity >> 2;
    let parity = parity ^ parity >> 1;
    spread | (parity & 0x0101_0101) << 7
}

/// Scales the magnitudes of a point and applies their signs.
pub(super) fn signed<const D: usize>(scale: f32, magnitudes: &[u8; D], signs: u8, out: &mut [f32]) {
    for (place, (out, &magnitude)) in out.iter_mut().zip(magnitudes).enumerate() {
        let value = scale * f32::from(magnitude);
        *out = if signs >> place & 1 == 0 { value } else { -value };
    }
}

/// Applies signs to eight magnitudes, none of which is 0 or above 127. Returns signed bytes.
#[inline(always)]
pub(super) fn signed_bytes(magnitudes: [u8; 8], signs: u8) -> [u8; 8] {
    let ones = BITS_TO_BYTES[usize::from(signs)];
    // Two's complement negation of the selected bytes. No carry leaves a byte, because no byte is
    // 0.
    ((u64::from_le_bytes(magnitudes) ^ ones * 0xff) + ones).to_le_bytes()
}

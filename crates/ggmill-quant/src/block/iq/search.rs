//! The search for the scale and the grid points of a group of magnitudes.
//!
//! It mirrors the reference's operation by operation; the order of its sums decides which candidate
//! wins. This is the definition; [`steps`](super::steps) does the same with the candidates side by
//! side.

use super::grid::{Grid, List, Place, bits};
use super::group::Group;
use super::split::{Split, Splits, ascending};
use crate::numeric::nearest;

/// Which points of a group are chosen again for the best scale that the candidates gave.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Again {
    /// Those that were rounded off the grid.
    Off,
    /// All of them, where one was rounded off the grid.
    AllIfAnyOff,
    /// All of them.
    All,
}

/// The values of the levels, before scaling.
pub(super) const ODD: [f32; 8] = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];

/// How groups are searched. The answers are the same.
pub(super) trait Way: Copy {
    /// As [`Search::run`].
    fn run<const D: usize, const N: usize, const P: usize>(
        self,
        search: &Search<D>,
        group: &mut Group<N>,
        weights: &[f32; N],
        extent: f32,
        scale: f32,
    ) -> (f32, [u16; P]);

    /// The index of the point of the least weighted error, the first of equals. `quants` are what
    /// the levels stand for under the scale.
    fn nearest_of<const D: usize>(
        self,
        near: List<'_>,
        values: &[f32; D],
        weights: &[f32; D],
        scale: f32,
        quants: &[f32; 8],
    ) -> u16;

    /// As [`ascending`].
    fn ascending<const N: usize>(self, values: &[f32; N]) -> [usize; N];

    /// The best of the [`Splits`], the first of equals; none where none is any good.
    fn best_of<const M: usize, const S: usize>(self, splits: &impl Splits<M, S>) -> Option<Split>;
}

/// One group, one candidate, one point after the other: the definition.
#[derive(Clone, Copy)]
pub(super) struct OneByOne;

impl Way for OneByOne {
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
        near: List<'_>,
        values: &[f32; D],
        weights: &[f32; D],
        scale: f32,
        quants: &[f32; 8],
    ) -> u16 {
        // Where no error is a number below the greatest, the reference stops its process, or goes
        // on to read beyond the row; the nearest levels are an answer too.
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

    fn best_of<const M: usize, const S: usize>(self, splits: &impl Splits<M, S>) -> Option<Split> {
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

/// How a type looks for scales. Level `l` stands for 2·l + 1.
pub(super) struct Search<const D: usize> {
    pub(super) grid: &'static Grid<D>,
    /// Candidates on either side of the middle one, which puts the group's extent on the top
    /// level.
    pub(super) reach: i32,
    /// From one candidate to the next.
    pub(super) width: f32,
    pub(super) again: Again,
}

/// The sums whose quotient is the best scale for given points: Σ w·x·q and Σ w·q².
#[derive(Clone, Copy)]
pub(super) struct Fit {
    pub(super) xq: f32,
    pub(super) qq: f32,
}

/// The best of the candidates so far, and the points that go with it.
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
    /// The scale, never negative, and the indices of the `P` points of a group. Where the best
    /// scale is negative the group's signs are flipped instead.
    ///
    /// `extent` is the magnitude that the middle candidate puts on the top level, `scale` the
    /// answer if no candidate is any good.
    pub(super) fn run<const N: usize, const P: usize>(
        &self,
        group: &mut Group<N>,
        weights: &[f32; N],
        extent: f32,
        scale: f32,
    ) -> (f32, [u16; P]) {
        let roots = weights.map(f32::sqrt);
        let mut best = self.nothing(scale);
        for step in -self.reach..=self.reach {
            let inverse = self.numerator(step) / extent;
            let (mut trial, mut off) = ([0; P], [false; P]);
            for point in 0..P {
                (trial[point], off[point]) =
                    self.choose(OneByOne, &group.magnitudes, &roots, point, inverse, 1.0 / inverse);
            }
            let fit = self.fit(&group.magnitudes, weights, &trial);
            if best.beaten_by(fit) {
                best.replace(fit, trial, off);
            }
        }
        self.finish(OneByOne, group, weights, &roots, &best)
    }

    /// The best before any candidate.
    #[inline(always)]
    pub(super) fn nothing<const P: usize>(&self, scale: f32) -> Best<P> {
        Best { scale, value: 0.0, indices: [0; P], off: [self.again == Again::AllIfAnyOff; P] }
    }

    /// The level that a candidate assigns to the extent.
    #[inline(always)]
    pub(super) fn numerator(&self, step: i32) -> f32 {
        f32::from(2 * self.grid.levels - 1) + step as f32 * self.width
    }

    /// Chooses the points once more, for the best scale, and makes that positive.
    #[inline(always)]
    pub(super) fn finish<const N: usize, const P: usize>(
        &self,
        way: impl Way,
        group: &mut Group<N>,
        weights: &[f32; N],
        roots: &[f32; N],
        best: &Best<P>,
    ) -> (f32, [u16; P]) {
        let Best { mut scale, mut indices, off, .. } = *best;
        if scale > 0.0 && (self.again == Again::All || off.contains(&true)) {
            let inverse = 1.0 / scale;
            for point in 0..P {
                if off[point] || self.again != Again::Off {
                    indices[point] =
                        self.choose(way, &group.magnitudes, roots, point, inverse, scale).0;
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
        // Overflowing sums: the reference stops its process here.
        if scale.is_nan() {
            scale = 0.0;
        }
        (scale, indices)
    }

    /// The index of the point that a few weights are rounded to, and whether plain rounding missed
    /// the grid.
    #[inline(always)]
    fn choose<const N: usize>(
        &self,
        way: impl Way,
        magnitudes: &[f32; N],
        roots: &[f32; N],
        point: usize,
        inverse: f32,
        scale: f32,
    ) -> (u16, bool) {
        let magnitudes: &[f32; D] = piece(magnitudes, point);
        let top = i32::from(self.grid.levels) - 1;
        let levels = magnitudes
            .map(|magnitude| nearest(0.5 * (inverse * magnitude - 1.0)).clamp(0, top) as u8);
        match self.grid.near().place(self.grid.number(&levels)) {
            Place::On(index) => (index, false),
            Place::Off(near) => {
                (way.nearest_of(near, magnitudes, piece(roots, point), scale, &ODD), true)
            }
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
                (piece(magnitudes, point), piece(weights, point));
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

/// The weights of one point of a group.
#[inline(always)]
pub(super) fn piece<const N: usize, const D: usize>(values: &[f32; N], point: usize) -> &[f32; D] {
    &values.as_chunks().0[point]
}

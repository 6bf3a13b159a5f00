//! The search for the scale and the grid points of a group of magnitudes.
//!
//! It mirrors the reference's operation by operation; the order of its sums decides which candidate wins.

use super::grid::{Grid, Place};
use super::group::Group;
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

/// How a type looks for scales. Level `l` stands for 2·l + 1.
pub(super) struct Search<const D: usize> {
    pub(super) grid: &'static Grid<D>,
    /// Candidates on either side of the middle one, which puts the group's extent on the top level.
    pub(super) reach: i32,
    /// From one candidate to the next.
    pub(super) width: f32,
    pub(super) again: Again,
}

/// The sums whose quotient is the best scale for given points: Σ w·x·q and Σ w·q².
#[derive(Clone, Copy)]
struct Fit {
    xq: f32,
    qq: f32,
}

impl<const D: usize> Search<D> {
    /// The scale, never negative, and the indices of the `P` points of a group. Where the best scale is negative the group's signs are turned instead.
    ///
    /// `extent` is the magnitude that the middle candidate puts on the top level, `scale` the answer if no candidate is any good.
    pub(super) fn run<const N: usize, const P: usize>(&self, group: &mut Group<N>, weights: &[f32; N], extent: f32, mut scale: f32) -> (f32, [u16; P]) {
        let roots = weights.map(f32::sqrt);
        let mut indices = [0; P];
        let mut off = [self.again == Again::AllIfAnyOff; P];
        let mut best = 0.0;
        let top = f32::from(2 * self.grid.levels - 1);
        for step in -self.reach..=self.reach {
            let inverse = (top + step as f32 * self.width) / extent;
            let (mut trial, mut trial_off) = ([0; P], [false; P]);
            for point in 0..P {
                (trial[point], trial_off[point]) = self.choose(&group.magnitudes, &roots, point, inverse, 1.0 / inverse);
            }
            let fit = self.fit(&group.magnitudes, weights, &trial);
            if fit.qq > 0.0 && fit.xq * fit.xq > best * fit.qq {
                scale = fit.xq / fit.qq;
                best = scale * fit.xq;
                indices = trial;
                off = trial_off;
            }
        }
        if scale > 0.0 && (self.again == Again::All || off.contains(&true)) {
            let inverse = 1.0 / scale;
            for point in 0..P {
                if off[point] || self.again != Again::Off {
                    indices[point] = self.choose(&group.magnitudes, &roots, point, inverse, scale).0;
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

    /// The index of the point that a few weights are rounded to, and whether plain rounding missed the grid.
    fn choose<const N: usize>(&self, magnitudes: &[f32; N], roots: &[f32; N], point: usize, inverse: f32, scale: f32) -> (u16, bool) {
        let magnitudes: &[f32; D] = piece(magnitudes, point);
        let top = i32::from(self.grid.levels) - 1;
        let levels = magnitudes.map(|magnitude| nearest(0.5 * (inverse * magnitude - 1.0)).clamp(0, top) as u8);
        match self.grid.near().place(self.grid.number(&levels)) {
            Place::On(index) => (index, false),
            Place::Off(near) => (self.nearest_of(near, magnitudes, piece(roots, point), scale), true),
        }
    }

    /// The index among `near` of the least weighted error, the first of equals.
    fn nearest_of(&self, near: &[u16], magnitudes: &[f32; D], roots: &[f32; D], scale: f32) -> u16 {
        // Where no error is a number below the greatest, the reference stops its process; the nearest levels are an answer too.
        let mut found = near[0];
        let mut least = f32::MAX;
        for &index in near {
            let mut error = 0.0;
            for ((&level, &magnitude), &root) in self.grid.points[usize::from(index)].iter().zip(magnitudes).zip(roots) {
                let diff = scale * f32::from(2 * level + 1) - magnitude;
                error += root * diff * diff;
            }
            if error < least {
                least = error;
                found = index;
            }
        }
        found
    }

    fn fit<const N: usize, const P: usize>(&self, magnitudes: &[f32; N], weights: &[f32; N], indices: &[u16; P]) -> Fit {
        let mut fit = Fit { xq: 0.0, qq: 0.0 };
        for (point, &index) in indices.iter().enumerate() {
            let (magnitudes, weights): (&[f32; D], &[f32; D]) = (piece(magnitudes, point), piece(weights, point));
            for ((&level, &magnitude), &weight) in self.grid.points[usize::from(index)].iter().zip(magnitudes).zip(weights) {
                let quant = f32::from(2 * level + 1);
                fit.xq += weight * magnitude * quant;
                fit.qq += weight * quant * quant;
            }
        }
        fit
    }
}

/// The weights of one point of a group.
fn piece<const N: usize, const D: usize>(values: &[f32; N], point: usize) -> &[f32; D] {
    &values.as_chunks().0[point]
}

//! The ways to split the sorted values of a group of an IQ1 type into three levels, and how well
//! each fits.

use super::grid::IQ1;
use crate::lanes::Lanes;

/// The values of the levels 0, 1 and 2.
pub(super) type Shift = [f32; 3];

/// A group's columns in the order of their values; equal ones in their original order.
pub(super) fn ascending<const N: usize>(values: &[f32; N]) -> [usize; N] {
    let mut order = core::array::from_fn(|column| column);
    order.sort_by(|&a: &usize, &b| {
        values[a].partial_cmp(&values[b]).unwrap_or(core::cmp::Ordering::Equal)
    });
    order
}

/// The ways to split sorted values into three levels: `M` ranks for either border, each with `S`
/// combinations of shifts.
pub(super) trait Splits<const M: usize, const S: usize> {
    /// With the level 1 from the rank `first` on and the level 2 from the rank `second` on.
    fn fits(&self, first: usize, second: usize) -> [Fit; S];

    /// As [`fits`](Self::fits), for the ranks from `second` on: Σ w·q·x and Σ w·q² of each
    /// combination. Lanes beyond the last rank have a second sum that is not a number.
    fn fits_from<L: Lanes>(&self, lanes: L, first: usize, second: usize) -> [[L::F; 2]; S];

    /// The sum of all weights, if none is negative.
    fn weight(&self) -> Option<f32>;
}

/// The best way to split.
#[derive(Clone, Copy)]
pub(super) struct Split {
    pub(super) first: usize,
    pub(super) second: usize,
    /// Which combination of shifts.
    pub(super) shifts: usize,
    pub(super) scale: f32,
}

/// Levels by rank: 0 for the first of the order, 1 from the rank `first` on, 2 from the rank
/// `second` on. With `turned`, the other way round.
#[inline(always)]
pub(super) fn split<const N: usize>(
    order: &[usize; N],
    first: usize,
    second: usize,
    turned: bool,
) -> [u8; N] {
    let mut levels = [0; N];
    for (rank, &column) in order.iter().enumerate() {
        let level = u8::from(rank >= first) + u8::from(rank >= second);
        levels[column] = if turned { 2 - level } else { level };
    }
    levels
}

/// The sums whose quotient is the best scale for given points: Σ w·q·x and Σ w·q².
#[derive(Clone, Copy, Default)]
pub(super) struct Fit {
    pub(super) qx: f32,
    pub(super) qq: f32,
}

impl Fit {
    /// Adds eight weights that are rounded to a point, its levels `factor` times what `shift` says.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        index: u16,
        values: &[f32; 8],
        weights: &[f32; 8],
        shift: &Shift,
        factor: f32,
    ) {
        for ((&level, value), weight) in
            IQ1.points[usize::from(index)].iter().zip(values).zip(weights)
        {
            let quant = shift[usize::from(level)] * factor;
            self.qx += weight * quant * value;
            self.qq += weight * quant * quant;
        }
    }

    /// Whether this is the better of two, the other given by its scale times its first sum.
    #[inline(always)]
    pub(super) fn beats(self, best: f32) -> bool {
        self.qq > 0.0 && self.qx * self.qx > best * self.qq
    }
}

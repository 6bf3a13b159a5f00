//! What the two IQ1 types share: three signed levels, all shifted up or down by an eighth, and a grid of 2048 points.

use super::grid::{IQ1, Place, points};
use super::search::Way;
use super::sets;
use crate::lanes::{Floats, Lanes, MOST};

/// What the levels 0, 1 and 2 stand for.
pub(super) type Shift = [f32; 3];

pub(super) const UP: Shift = [-0.875, 0.125, 1.125];
pub(super) const DOWN: Shift = [-1.125, -0.125, 0.875];

/// Eight values under a scale.
pub(super) fn shifted(scale: f32, index: usize, shift: &Shift, out: &mut [f32]) {
    for (out, &level) in out.iter_mut().zip(&IQ1.points[index]) {
        *out = scale * shift[usize::from(level)];
    }
}

/// The levels of each point, four bits to a level, the first lowest.
static DIGITS: [u32; 2048] = {
    let points: [[u8; 8]; 2048] = points(&sets::IQ1_S, &[0, 1, 2]);
    let mut digits = [0; 2048];
    let mut index = 0;
    while index < digits.len() {
        let mut place = 0;
        while place < 8 {
            digits[index] |= (points[index][place] as u32) << (4 * place);
            place += 1;
        }
        index += 1;
    }
    digits
};

/// What the digits of [`digits`] stand for, as often as a vector may need it.
const OF_DIGITS: [f32; MOST] = {
    let mut of_digits = [0.0; MOST];
    let mut place = 0;
    while place < MOST {
        if place % 4 < 3 {
            of_digits[place] = if place & 4 == 0 { UP[place % 4] } else { DOWN[place % 4] };
        }
        place += 1;
    }
    of_digits
};

/// The levels of a point as digits for [`shifted_many`].
#[inline(always)]
pub(super) fn digits(index: usize, down: bool) -> u32 {
    DIGITS[index % DIGITS.len()] | u32::from(down) * 0x4444_4444
}

/// As many points under a scale as fill whole vectors.
#[inline(always)]
pub(super) fn shifted_many<L: Lanes>(lanes: L, scale: f32, digits: &[u32], out: &mut [f32]) {
    let table = lanes.splat(scale) * lanes.load(&OF_DIGITS);
    for (digits, out) in digits.chunks_exact(L::WIDTH / 8).zip(out.chunks_exact_mut(L::WIDTH)) {
        lanes.pick_digits(table, digits).store(out);
    }
}

/// A group's columns in the order of their values; equal ones as they stand.
pub(super) fn ascending<const N: usize>(values: &[f32; N]) -> [usize; N] {
    let mut order = core::array::from_fn(|column| column);
    order.sort_by(|&a: &usize, &b| values[a].partial_cmp(&values[b]).unwrap_or(core::cmp::Ordering::Equal));
    order
}

/// The ways to split sorted values into three levels: `M` ranks for either border, each with `S` combinations of shifts.
pub(super) trait Splits<const M: usize, const S: usize> {
    /// With the level 1 from the rank `first` on and the level 2 from the rank `second` on.
    fn fits(&self, first: usize, second: usize) -> [Fit; S];

    /// As [`fits`](Self::fits), for the ranks from `second` on: Σ w·q·x and Σ w·q² of each combination. Lanes beyond the last rank have a second sum that is not a
    /// number.
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

/// Levels by rank: 0 for the first of the order, 1 from the rank `first` on, 2 from the rank `second` on. With `turned`, the other way round.
#[inline(always)]
pub(super) fn split<const N: usize>(order: &[usize; N], first: usize, second: usize, turned: bool) -> [u8; N] {
    let mut levels = [0; N];
    for (rank, &column) in order.iter().enumerate() {
        let level = u8::from(rank >= first) + u8::from(rank >= second);
        levels[column] = if turned { 2 - level } else { level };
    }
    levels
}

/// The index of the point for eight weights, and whether their levels missed the grid.
#[inline(always)]
pub(super) fn choose(way: impl Way, levels: [u8; 8], values: &[f32; 8], weights: &[f32; 8], scale: f32, shift: &Shift) -> (u16, bool) {
    match IQ1.near().place(IQ1.number(&levels)) {
        Place::On(index) => (index, false),
        Place::Off(near) => (way.nearest_of(near, values, weights, scale, &[shift[0], shift[1], shift[2], 0.0, 0.0, 0.0, 0.0, 0.0]), true),
    }
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
    pub(super) fn add(&mut self, index: u16, values: &[f32; 8], weights: &[f32; 8], shift: &Shift, factor: f32) {
        for ((&level, value), weight) in IQ1.points[usize::from(index)].iter().zip(values).zip(weights) {
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

//! Shared parts of the IQ1 types: three levels that are shifted up or down by an eighth, a grid of
//! 2048 points, and the splits of a group's sorted values into the three levels.

use super::grid::{GridLookup, IQ1, points};
use super::search::Strategy;
use super::sets;
use crate::lanes::{Floats, Lanes, MAX_LANES};

/// The values of the three levels under a shift.
pub(super) type Shift = [f32; 3];

pub(super) const UP: Shift = [-0.875, 0.125, 1.125];
pub(super) const DOWN: Shift = [-1.125, -0.125, 0.875];

/// Decodes the eight values of a grid point.
pub(super) fn decode_point(scale: f32, index: usize, shift: &Shift, out: &mut [f32]) {
    for (out, &level) in out.iter_mut().zip(&IQ1.points[index]) {
        *out = scale * shift[usize::from(level)];
    }
}

/// The levels of each point, four bits per level, the first lowest.
static DIGITS: [u32; 2048] = {
    let points: [[u8; 8]; 2048] = points(&sets::IQ1_S, &[0, 1, 2]);
    let mut digits = [0; 2048];
    let mut index = 0;
    while index < digits.len() {
        let mut digit = 0;
        while digit < 8 {
            digits[index] |= (points[index][digit] as u32) << (4 * digit);
            digit += 1;
        }
        index += 1;
    }
    digits
};

/// The value of each digit, repeated to the longest vector: 0 to 2 shifted up, 4 to 6 shifted down.
const DIGIT_VALUES: [f32; MAX_LANES] = {
    let mut values = [0.0; MAX_LANES];
    let mut lane = 0;
    while lane < MAX_LANES {
        if lane % 4 < 3 {
            values[lane] = if lane & 4 == 0 { UP[lane % 4] } else { DOWN[lane % 4] };
        }
        lane += 1;
    }
    values
};

/// Returns the levels of a point as digits that index [`DIGIT_VALUES`].
#[inline(always)]
fn digits(index: usize, down: bool) -> u32 {
    DIGITS[index % DIGITS.len()] | u32::from(down) * 0x4444_4444
}

/// Decodes points that fill whole vectors, given by their indices and whether they are shifted
/// down.
#[inline(always)]
pub(super) fn decode_points<L: Lanes, const P: usize>(
    lanes: L,
    scale: f32,
    points: &[(usize, bool); P],
    out: &mut [f32],
) {
    if L::HAS_FAST_PICK {
        let mut all = [0; P];
        for (digits_of, &(index, down)) in all.iter_mut().zip(points) {
            *digits_of = digits(index, down);
        }
        let table = lanes.splat(scale) * lanes.load(&DIGIT_VALUES);
        for (digits, out) in all.chunks_exact(L::WIDTH / 8).zip(out.chunks_exact_mut(L::WIDTH)) {
            lanes.pick_digits(table, digits).store(out);
        }
        return;
    }
    let scale = lanes.splat(scale);
    for (&(index, down), out) in points.iter().zip(out.chunks_exact_mut(8)) {
        let lowest = lanes.splat(if down { DOWN[0] } else { UP[0] });
        let levels = &IQ1.points[index % DIGITS.len()];
        for (levels, out) in levels.chunks_exact(L::WIDTH).zip(out.chunks_exact_mut(L::WIDTH)) {
            ((lanes.load_signed(levels) + lowest) * scale).store(out);
        }
    }
}

/// Returns the index of the grid point for eight weights, and whether their levels are off the
/// grid.
#[inline(always)]
pub(super) fn choose(
    strategy: impl Strategy,
    levels: [u8; 8],
    values: &[f32; 8],
    weights: &[f32; 8],
    scale: f32,
    shift: &Shift,
) -> (u16, bool) {
    match IQ1.index().lookup(IQ1.number(&levels)) {
        GridLookup::OnGrid(index) => (index, false),
        GridLookup::OffGrid(near) => (
            strategy.nearest_of(
                near,
                values,
                weights,
                scale,
                &[shift[0], shift[1], shift[2], 0.0, 0.0, 0.0, 0.0, 0.0],
            ),
            true,
        ),
    }
}

/// Returns the columns of a group sorted by value; equal values keep their order.
pub(super) fn ascending<const N: usize>(values: &[f32; N]) -> [usize; N] {
    let mut order = core::array::from_fn(|column| column);
    order.sort_by(|&a: &usize, &b| {
        values[a].partial_cmp(&values[b]).unwrap_or(core::cmp::Ordering::Equal)
    });
    order
}

/// The ways to split sorted values into three levels: `M` possible ranks for each of the two
/// borders, and `S` combinations of shifts.
pub(super) trait Splits<const M: usize, const S: usize> {
    /// Returns the fits with level 1 from rank `first` on and level 2 from rank `second` on.
    fn fits(&self, first: usize, second: usize) -> [Fit; S];

    /// Does what [`fits`](Self::fits) does for the ranks from `second` on, one per lane. Returns
    /// Σ w·q·x and Σ w·q² of each combination. In lanes beyond the last rank the second sum is NaN.
    fn fits_from<L: Lanes>(&self, lanes: L, first: usize, second: usize) -> [[L::F; 2]; S];

    /// Returns the sum of all weights, if none is negative.
    fn weight(&self) -> Option<f32>;
}

/// The best split.
#[derive(Clone, Copy)]
pub(super) struct Split {
    pub(super) first: usize,
    pub(super) second: usize,
    /// The index of the combination of shifts.
    pub(super) shifts: usize,
    pub(super) scale: f32,
}

/// Returns the level of each column: 0 for ranks below `first`, 1 below `second`, else 2. With
/// `reversed`, levels are counted from the top.
#[inline(always)]
pub(super) fn levels_of_split<const N: usize>(
    order: &[usize; N],
    first: usize,
    second: usize,
    reversed: bool,
) -> [u8; N] {
    let mut levels = [0; N];
    for (rank, &column) in order.iter().enumerate() {
        let level = u8::from(rank >= first) + u8::from(rank >= second);
        levels[column] = if reversed { 2 - level } else { level };
    }
    levels
}

/// Σ w·q·x and Σ w·q², whose quotient is the best scale for given points.
#[derive(Clone, Copy, Default)]
pub(super) struct Fit {
    pub(super) qx: f32,
    pub(super) qq: f32,
}

impl Fit {
    /// Adds eight weights that are rounded to a point whose levels have `factor` times the values
    /// of `shift`.
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

    /// Returns `true` if this fit is better than another, given by its scale times its `qx`.
    #[inline(always)]
    pub(super) fn beats(self, best: f32) -> bool {
        self.qq > 0.0 && self.qx * self.qx > best * self.qq
    }
}

//! Common parts of the two IQ1 types: three signed levels, all shifted up or down by an eighth, and
//! a grid of 2048 points.

use super::grid::{IQ1, Place, points};
use super::search::Way;
use super::sets;
use super::split::Shift;
use crate::lanes::{Floats, Lanes, MOST};

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

/// The values of digits, repeated to the longest vector.
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

/// The levels of a point as digits of [`OF_DIGITS`].
#[inline(always)]
fn digits(index: usize, down: bool) -> u32 {
    DIGITS[index % DIGITS.len()] | u32::from(down) * 0x4444_4444
}

/// As many points under a scale as fill whole vectors: their indices, and whether they are shifted
/// down.
#[inline(always)]
pub(super) fn shifted_many<L: Lanes, const P: usize>(
    lanes: L,
    scale: f32,
    points: &[(usize, bool); P],
    out: &mut [f32],
) {
    if L::PICKS {
        let mut all = [0; P];
        for (digits_of, &(index, down)) in all.iter_mut().zip(points) {
            *digits_of = digits(index, down);
        }
        let table = lanes.splat(scale) * lanes.load(&OF_DIGITS);
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

/// The index of the point for eight weights, and whether their levels missed the grid.
#[inline(always)]
pub(super) fn choose(
    way: impl Way,
    levels: [u8; 8],
    values: &[f32; 8],
    weights: &[f32; 8],
    scale: f32,
    shift: &Shift,
) -> (u16, bool) {
    match IQ1.near().place(IQ1.number(&levels)) {
        Place::On(index) => (index, false),
        Place::Off(near) => (
            way.nearest_of(
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

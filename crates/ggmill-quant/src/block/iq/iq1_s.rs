//! IQ1_S: groups of 32 weights, each with a three-bit scale, a shift and four points of a grid of
//! 2048.

use ggmill_core::GgmlType;

use super::iq1::{
    DOWN, Fit, Shift, Split, Splits, UP, choose, decode_point, decode_points, levels_of_split,
};
use super::search::Strategy;
use super::{QK_K, Write, max_scale, scale_levels, sigma2, value_weights};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{Lanes, MAX_LANES};
use crate::numeric::max_abs;

pub(crate) struct IQ1_S;

// Offsets: after the super-scale, the lower eight bits of every index, then a word for each group:
// the upper three bits of four indices, the scale, whether the shift is down.
const LOW: usize = 2;
const WORDS: usize = 34;

/// Groups whose greatest magnitude is below this are treated as zero.
const SMALLEST: f32 = 1e-12;

impl Decode<QK_K, 50> for IQ1_S {
    const TYPE: GgmlType = GgmlType::IQ1_S;

    fn decode(block: &[u8; 50], out: &mut [f32; QK_K]) {
        let super_scale = read_f16(block, 0);
        let (words, _) = block[WORDS..].as_chunks::<2>();
        for ((word, low), out) in
            words.iter().zip(block[LOW..WORDS].chunks_exact(4)).zip(out.chunks_exact_mut(32))
        {
            let word = u16::from_le_bytes(*word);
            let scale = super_scale * f32::from(2 * (word >> 12 & 7) + 1);
            let shift = if word >> 15 == 0 { UP } else { DOWN };
            for (place, (&low, out)) in low.iter().zip(out.chunks_exact_mut(8)).enumerate() {
                decode_point(
                    scale,
                    usize::from(low) | usize::from(word >> (3 * place) & 7) << 8,
                    &shift,
                    out,
                );
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 50]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            let (words, _) = block[WORDS..].as_chunks::<2>();
            let (lows, _) = block[LOW..WORDS].as_chunks::<4>();
            for ((word, low), out) in words.iter().zip(lows).zip(out.chunks_exact_mut(32)) {
                let word = u16::from_le_bytes(*word);
                let mut points = [(0, false); 4];
                for (place, (point, &low)) in points.iter_mut().zip(low).enumerate() {
                    *point = (
                        usize::from(low) | usize::from(word >> (3 * place) & 7) << 8,
                        word >> 15 != 0,
                    );
                }
                decode_points(
                    lanes,
                    super_scale * f32::from(2 * (word >> 12 & 7) + 1),
                    &points,
                    out,
                );
            }
        }
    }
}

impl Write<50> for IQ1_S {
    const NEEDS_WEIGHTS: bool = true;

    #[inline(always)]
    fn write(
        strategy: impl Strategy,
        values: &[f32; QK_K],
        importance: Option<&[f32; QK_K]>,
        block: &mut [u8; 50],
    ) {
        block.fill(0);
        let weights = value_weights(values, importance, sigma2(values), 0.0);
        let mut scales = [0.0; 8];
        let mut words = [0_u16; 8];
        let (values, _) = values.as_chunks::<32>();
        let (weights, _) = weights.as_chunks::<32>();
        for (index, values) in values.iter().enumerate() {
            // A group without a scale keeps point 0, whose levels are all the lowest.
            if max_abs(values) < SMALLEST {
                continue;
            }
            let Some(found) = search(strategy, values, &weights[index]) else { continue };
            scales[index] = found.scale;
            for (place, point) in found.points.into_iter().enumerate() {
                block[LOW + 4 * index + place] = point as u8;
                words[index] |= (point >> 8) << (3 * place);
            }
            words[index] |= u16::from(found.down) << 15;
        }
        let max_scale = max_scale(&scales);
        let super_scale = max_scale / 15.0;
        let levels = if max_scale == 0.0 { [0; 8] } else { scale_levels(scales, super_scale, 7) };
        for ((stored, word), level) in block[WORDS..].chunks_exact_mut(2).zip(words).zip(levels) {
            // If all scales are 0 the reference does not store the shifts either.
            let word = if max_scale == 0.0 { word & 0x0fff } else { word | u16::from(level) << 12 };
            stored.copy_from_slice(&word.to_le_bytes());
        }
        // An empirical correction of the reference.
        write_f16(block, 0, super_scale * 1.125);
    }
}

struct GroupChoice {
    scale: f32,
    points: [u16; 4],
    down: bool,
}

/// Prefix sums over the sorted values of a group, padded so that a whole vector can be read at any
/// position.
struct Sums {
    x: [f32; RANKS + MAX_LANES],
    w: [f32; RANKS + MAX_LANES],
    /// `true` if no weight is negative.
    positive: bool,
}

/// The number of possible ranks of a border.
const RANKS: usize = 33;

const SHIFTS: [&Shift; 2] = [&UP, &DOWN];

impl Splits<RANKS, 2> for Sums {
    #[inline(always)]
    fn fits(&self, first: usize, second: usize) -> [Fit; 2] {
        let part = |sums: &[f32; RANKS + MAX_LANES]| {
            [sums[first] - sums[0], sums[second] - sums[first], sums[RANKS - 1] - sums[second]]
        };
        let (x, w) = (part(&self.x), part(&self.w));
        SHIFTS.map(|shift| Fit {
            qx: x[0] * shift[0] + x[1] * shift[1] + x[2] * shift[2],
            qq: w[0] * shift[0] * shift[0]
                + w[1] * shift[1] * shift[1]
                + w[2] * shift[2] * shift[2],
        })
    }

    #[inline(always)]
    fn fits_from<L: Lanes>(&self, lanes: L, first: usize, second: usize) -> [[L::F; 2]; 2] {
        let (x, w) = (lanes.load(&self.x[second..]), lanes.load(&self.w[second..]));
        let x = [
            lanes.splat(self.x[first] - self.x[0]),
            x - lanes.splat(self.x[first]),
            lanes.splat(self.x[RANKS - 1]) - x,
        ];
        let w = [
            lanes.splat(self.w[first] - self.w[0]),
            w - lanes.splat(self.w[first]),
            lanes.splat(self.w[RANKS - 1]) - w,
        ];
        [shift_sums(lanes, &x, &w, &UP), shift_sums(lanes, &x, &w, &DOWN)]
    }

    #[inline(always)]
    fn weight(&self) -> Option<f32> {
        self.positive.then_some(self.w[RANKS - 1])
    }
}

/// Combines the sums of the three levels for one shift.
#[inline(always)]
fn shift_sums<L: Lanes>(lanes: L, x: &[L::F; 3], w: &[L::F; 3], shift: &Shift) -> [L::F; 2] {
    let [a, b, c] = [lanes.splat(shift[0]), lanes.splat(shift[1]), lanes.splat(shift[2])];
    [x[0] * a + x[1] * b + x[2] * c, w[0] * a * a + w[1] * b * b + w[2] * c * c]
}

/// Tries every split of the sorted values into three levels under both shifts, then rounds the best
/// one to the grid. Returns `None` if no split gives a scale.
#[inline(always)]
fn search(strategy: impl Strategy, values: &[f32; 32], weights: &[f32; 32]) -> Option<GroupChoice> {
    let order = strategy.ascending(values);
    let mut sums =
        Sums { x: [0.0; RANKS + MAX_LANES], w: [f32::NAN; RANKS + MAX_LANES], positive: true };
    sums.w[0] = 0.0;
    for (rank, &column) in order.iter().enumerate() {
        sums.x[rank + 1] = sums.x[rank] + weights[column] * values[column];
        sums.w[rank + 1] = sums.w[rank] + weights[column];
        sums.positive &= weights[column] >= 0.0;
    }
    let Split { first, second, shifts, scale } = strategy.best_split(&sums)?;
    let down = shifts == 1;
    let reversed = scale < 0.0;
    let levels = levels_of_split(&order, first, second, reversed);
    let (down, mut scale) = (down != reversed, if reversed { -scale } else { scale });
    let shift = if down { DOWN } else { UP };

    let (values, _) = values.as_chunks::<8>();
    let (weights, _) = weights.as_chunks::<8>();
    let (levels, _) = levels.as_chunks::<8>();
    let mut points = [0; 4];
    let mut any_off = false;
    for (place, point) in points.iter_mut().enumerate() {
        let off;
        (*point, off) =
            choose(strategy, levels[place], &values[place], &weights[place], scale, &shift);
        any_off |= off;
    }
    if any_off {
        let mut fit = Fit::default();
        for (place, &point) in points.iter().enumerate() {
            fit.add(point, &values[place], &weights[place], &shift, 1.0);
        }
        if fit.qx > 0.0 && fit.qq > 0.0 {
            scale = fit.qx / fit.qq;
        }
    }
    // Sums have overflowed. The reference aborts here.
    if scale.is_nan() {
        scale = 0.0;
    }
    Some(GroupChoice { scale, points, down })
}

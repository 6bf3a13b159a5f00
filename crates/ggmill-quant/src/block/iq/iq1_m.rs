//! IQ1_M: groups of 16 weights, each with a three-bit scale and two points of a grid of 2048, every
//! point with its own shift.

use ggmill_core::GgmlType;

use super::iq1::{
    DOWN, Fit, Shift, Split, Splits, UP, choose, decode_point, decode_points, levels_of_split,
};
use super::search::Strategy;
use super::{QK_K, Write, max_scale, scale_levels, sigma2, value_weights};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{Floats, Lanes, MAX_LANES};
use crate::numeric::max_abs;

pub(crate) struct IQ1_M;

// Offsets: after the lower eight bits of every index, a byte for every two points with their other
// three bits and shifts; then four words, each with four scales below four bits of the super-scale.
const HIGH: usize = 32;
const SCALES: usize = 48;

/// Groups whose greatest magnitude is below this are treated as zero.
const SMALLEST: f32 = 1e-7;

impl Decode<QK_K, 56> for IQ1_M {
    const TYPE: GgmlType = GgmlType::IQ1_M;

    fn decode(block: &[u8; 56], out: &mut [f32; QK_K]) {
        let words: [u16; 4] = core::array::from_fn(|word| {
            u16::from_le_bytes([block[SCALES + 2 * word], block[SCALES + 2 * word + 1]])
        });
        let bits = words.iter().rfold(0, |bits, word| bits << 4 | word >> 12);
        let super_scale = read_f16(&bits.to_le_bytes(), 0);
        for (place, out) in out.chunks_exact_mut(8).enumerate() {
            let group = place / 2;
            let scale = super_scale * f32::from(2 * (words[group / 4] >> (group % 4 * 3) & 7) + 1);
            let high = block[HIGH + group] >> (place % 2 * 4);
            let index = usize::from(block[place]) | usize::from(high & 7) << 8;
            decode_point(scale, index, if high & 8 == 0 { &UP } else { &DOWN }, out);
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 56]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let bits = u64::from_le_bytes(core::array::from_fn(|i| block[SCALES + i]));
            let super_scale = [12, 28, 44, 60]
                .into_iter()
                .rfold(0, |scale, place| scale << 4 | (bits >> place) as u16 & 15);
            let super_scale = read_f16(&super_scale.to_le_bytes(), 0);
            let (lows, _) = block[..HIGH].as_chunks::<2>();
            for (group, ((low, &high), out)) in
                lows.iter().zip(&block[HIGH..SCALES]).zip(out.chunks_exact_mut(16)).enumerate()
            {
                let high = usize::from(high);
                let points = [
                    (usize::from(low[0]) | (high & 7) << 8, high & 8 != 0),
                    (usize::from(low[1]) | (high & 0x70) << 4, high & 0x80 != 0),
                ];
                let level = bits >> (16 * (group / 4) + group % 4 * 3) & 7;
                decode_points(lanes, super_scale * (2 * level + 1) as f32, &points, out);
            }
        }
    }
}

impl Write<56> for IQ1_M {
    #[inline(always)]
    fn write(
        strategy: impl Strategy,
        all: &[f32; QK_K],
        importance: Option<&[f32; QK_K]>,
        block: &mut [u8; 56],
    ) {
        block.fill(0);
        let (values, _) = all.as_chunks::<16>();
        let weights = value_weights(all, importance, sigma2(all), 0.0);
        let (weights, _) = weights.as_chunks::<16>();
        // A group without a scale keeps point 0, whose levels are all the lowest.
        let mut found = [GroupChoice::default(); 16];
        for ((found, values), weights) in found.iter_mut().zip(values).zip(weights) {
            if max_abs(values) >= SMALLEST {
                *found = search(strategy, values, weights).unwrap_or_default();
            }
        }
        for (index, found) in found.iter().enumerate() {
            for (place, point) in found.points.into_iter().enumerate() {
                block[2 * index + place] = point as u8;
                block[HIGH + index] |= ((point >> 8) as u8) << (4 * place);
            }
        }
        let scales = found.map(|found| found.scale);
        let max_scale = max_scale(&scales);
        if max_scale == 0.0 {
            return;
        }
        let mut super_scale = max_scale / 15.0;
        let levels = scale_levels(scales, super_scale, 7);
        // The super-scale of least error for the stored scales and points.
        let mut fit = Fit::default();
        let mut words = [0_u16; 4];
        for (index, (found, level)) in found.iter().zip(levels).enumerate() {
            words[index / 4] |= u16::from(level) << (index % 4 * 3);
            let (values, _) = values[index].as_chunks::<8>();
            let (weights, _) = weights[index].as_chunks::<8>();
            for place in 0..2 {
                block[HIGH + index] |= u8::from(found.down[place]) << (4 * place + 3);
                fit.add(
                    found.points[place],
                    &values[place],
                    &weights[place],
                    shift(found.down[place]),
                    f32::from(2 * level + 1),
                );
            }
        }
        if fit.qq > 0.0 {
            super_scale = fit.qx / fit.qq;
        }
        // An empirical correction of the reference.
        let mut bytes = [0; 2];
        write_f16(&mut bytes, 0, super_scale * 1.1125);
        let bits = u16::from_le_bytes(bytes);
        for (index, (stored, word)) in block[SCALES..].chunks_exact_mut(2).zip(words).enumerate() {
            stored.copy_from_slice(&(word | (bits >> (4 * index) & 15) << 12).to_le_bytes());
        }
    }
}

#[derive(Clone, Copy, Default)]
struct GroupChoice {
    scale: f32,
    points: [u16; 2],
    down: [bool; 2],
}

fn shift(down: bool) -> &'static Shift {
    if down { &DOWN } else { &UP }
}

/// Prefix sums over the sorted values of a group, separate for the two halves of the group, whose
/// shifts may differ. Padded so that a whole vector can be read at any position.
struct Sums {
    x: [[f32; RANKS + MAX_LANES]; 2],
    /// Σ w·q·x with all values on the top level, for each shift.
    top: [[f32; 2]; 2],
    /// Σ w·q² with all values on the top level, corrected for the values below the first border.
    first: [[[f32; RANKS]; 2]; 2],
    /// The correction for the values below the second border.
    second: [[[f32; RANKS + MAX_LANES]; 2]; 2],
    /// The sum of all weights, if none is negative.
    weight: Option<f32>,
}

/// The number of possible ranks of a border.
const RANKS: usize = 17;

impl Sums {
    #[inline(always)]
    fn new(order: &[usize; 16], values: &[f32; 16], weights: &[f32; 16]) -> Self {
        let mut sums = Self {
            x: [[0.0; RANKS + MAX_LANES]; 2],
            top: [[0.0; 2]; 2],
            first: [[[0.0; RANKS]; 2]; 2],
            second: [[[f32::NAN; RANKS + MAX_LANES]; 2]; 2],
            weight: None,
        };
        // Columns of the other half add 0, which does not change a sum and needs no branch.
        let mut terms = [[[0.0; 2]; 16]; 2];
        let mut positive = true;
        for (column, (&value, &weight)) in values.iter().zip(weights).enumerate() {
            terms[column / 8][column] = [weight * value, weight];
            positive &= weight >= 0.0;
        }
        let mut total = 0.0;
        for (half, terms) in terms.iter().enumerate() {
            let [mut x, mut w] = [0.0; 2];
            let mut below = [0.0; RANKS];
            for (rank, &column) in order.iter().enumerate() {
                x += terms[column][0];
                w += terms[column][1];
                sums.x[half][rank + 1] = x;
                below[rank + 1] = w;
            }
            total += w;
            for (place, shift) in [UP, DOWN].iter().enumerate() {
                // All values on the top level, then one level lower below each border.
                let falls = [
                    shift[0] * shift[0] - shift[1] * shift[1],
                    shift[1] * shift[1] - shift[2] * shift[2],
                ];
                sums.top[half][place] = x * shift[2];
                let top = w * shift[2] * shift[2];
                for ((first, second), &below) in sums.first[half][place]
                    .iter_mut()
                    .zip(&mut sums.second[half][place])
                    .zip(&below)
                {
                    *first = top + below * falls[0];
                    *second = below * falls[1];
                }
            }
        }
        sums.weight = positive.then_some(total);
        sums
    }

    /// Returns the sums of one half, shifted up and shifted down.
    #[inline(always)]
    fn half<L: Lanes>(
        &self,
        lanes: L,
        half: usize,
        first: usize,
        second: usize,
    ) -> ([L::F; 2], [L::F; 2]) {
        let (x, top, [up, down], [to_up, to_down]) =
            (&self.x[half], self.top[half], &self.second[half], &self.first[half]);
        let below = lanes.splat(x[first]) + lanes.load(&x[second..]);
        (
            [lanes.splat(top[0]) - below, lanes.splat(to_up[first]) + lanes.load(&up[second..])],
            [
                lanes.splat(top[1]) - below,
                lanes.splat(to_down[first]) + lanes.load(&down[second..]),
            ],
        )
    }
}

#[inline(always)]
fn add<F: Floats>(a: [F; 2], b: [F; 2]) -> [F; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

impl Splits<RANKS, 4> for Sums {
    #[inline(always)]
    fn fits(&self, first: usize, second: usize) -> [Fit; 4] {
        let fit = |half: usize, shift: usize| Fit {
            qx: self.top[half][shift] - (self.x[half][first] + self.x[half][second]),
            qq: self.first[half][shift][first] + self.second[half][shift][second],
        };
        let fits = [0, 1].map(|half| [fit(half, 0), fit(half, 1)]);
        SHIFT_PAIRS.map(|down| {
            let [a, b] = [fits[0][usize::from(down[0])], fits[1][usize::from(down[1])]];
            Fit { qx: a.qx + b.qx, qq: a.qq + b.qq }
        })
    }

    #[inline(always)]
    fn fits_from<L: Lanes>(&self, lanes: L, first: usize, second: usize) -> [[L::F; 2]; 4] {
        let [(a_up, a_down), (b_up, b_down)] =
            [self.half(lanes, 0, first, second), self.half(lanes, 1, first, second)];
        // In the order of `SHIFT_PAIRS`.
        [add(a_up, b_up), add(a_up, b_down), add(a_down, b_up), add(a_down, b_down)]
    }

    #[inline(always)]
    fn weight(&self) -> Option<f32> {
        self.weight
    }
}

/// Which halves are shifted down, in the order in which the reference tries them.
const SHIFT_PAIRS: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

/// Tries every split of the sorted values into three levels under all four pairs of shifts, then
/// rounds the best one to the grid. Returns `None` if no split gives a scale.
#[inline(always)]
fn search(strategy: impl Strategy, values: &[f32; 16], weights: &[f32; 16]) -> Option<GroupChoice> {
    let order = strategy.ascending(values);
    let Split { first, second, shifts, scale } =
        strategy.best_split(&Sums::new(&order, values, weights))?;
    let down = SHIFT_PAIRS[shifts];
    let reversed = scale < 0.0;
    let levels = levels_of_split(&order, first, second, reversed);
    let (down, mut scale) =
        (down.map(|down| down != reversed), if reversed { -scale } else { scale });

    let (values, _) = values.as_chunks::<8>();
    let (weights, _) = weights.as_chunks::<8>();
    let (levels, _) = levels.as_chunks::<8>();
    let mut points = [0; 2];
    let mut any_off = false;
    for (place, point) in points.iter_mut().enumerate() {
        let off;
        (*point, off) = choose(
            strategy,
            levels[place],
            &values[place],
            &weights[place],
            scale,
            shift(down[place]),
        );
        any_off |= off;
    }
    if any_off {
        let mut fit = Fit::default();
        for (place, &point) in points.iter().enumerate() {
            fit.add(point, &values[place], &weights[place], shift(down[place]), 1.0);
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

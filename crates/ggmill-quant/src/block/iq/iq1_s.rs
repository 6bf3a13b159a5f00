//! IQ1_S: groups of 32 weights, each a three-bit scale, the sign of a shift and four points of a grid of 2048.

use ggmill_core::GgmlType;

use super::search::Way;
use super::shifted::{DOWN, Fit, Shift, UP, ascending, choose, shifted, split};
use super::{SUPER, Write, counts, greatest, scale_levels, spread};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::numeric::largest;

pub(crate) struct IQ1_S;

// The super-scale, eight bits of every index, then for each group a word: three more bits of four indices, the scale, whether the shift is down.
const LOW: usize = 2;
const WORDS: usize = 34;

/// Groups whose largest magnitude is below this count as all zero.
const SMALLEST: f32 = 1e-12;

impl Decode<SUPER, 50> for IQ1_S {
    const TYPE: GgmlType = GgmlType::IQ1_S;

    fn decode(block: &[u8; 50], out: &mut [f32; SUPER]) {
        let super_scale = read_f16(block, 0);
        let (words, _) = block[WORDS..].as_chunks::<2>();
        for ((word, low), out) in words.iter().zip(block[LOW..WORDS].chunks_exact(4)).zip(out.chunks_exact_mut(32)) {
            let word = u16::from_le_bytes(*word);
            let scale = super_scale * f32::from(2 * (word >> 12 & 7) + 1);
            let shift = if word >> 15 == 0 { UP } else { DOWN };
            for (place, (&low, out)) in low.iter().zip(out.chunks_exact_mut(8)).enumerate() {
                shifted(scale, usize::from(low) | usize::from(word >> (3 * place) & 7) << 8, &shift, out);
            }
        }
    }
}

impl Write<50> for IQ1_S {
    const NEEDS_WEIGHTS: bool = true;

    #[inline(always)]
    fn write(way: impl Way, values: &[f32; SUPER], importance: Option<&[f32; SUPER]>, block: &mut [u8; 50]) {
        block.fill(0);
        let weights = counts(values, importance, spread(values), 0.0);
        let mut scales = [0.0; 8];
        let mut words = [0_u16; 8];
        let (values, _) = values.as_chunks::<32>();
        let (weights, _) = weights.as_chunks::<32>();
        for (index, values) in values.iter().enumerate() {
            // A group without a scale of its own keeps points 0, which stand for the lowest level.
            if largest(values) < SMALLEST {
                continue;
            }
            let Some(found) = search(way, values, &weights[index]) else { continue };
            scales[index] = found.scale;
            for (place, point) in found.points.into_iter().enumerate() {
                block[LOW + 4 * index + place] = point as u8;
                words[index] |= (point >> 8) << (3 * place);
            }
            words[index] |= u16::from(found.down) << 15;
        }
        let greatest = greatest(&scales);
        let super_scale = greatest / 15.0;
        let levels = if greatest == 0.0 { [0; 8] } else { scale_levels(scales, super_scale, 7) };
        for ((stored, word), level) in block[WORDS..].chunks_exact_mut(2).zip(words).zip(levels) {
            // Without any scale the reference does not store the shifts either.
            let word = if greatest == 0.0 { word & 0x0fff } else { word | u16::from(level) << 12 };
            stored.copy_from_slice(&word.to_le_bytes());
        }
        // The reference's correction, found by trial.
        write_f16(block, 0, super_scale * 1.125);
    }
}

struct Found {
    scale: f32,
    points: [u16; 4],
    down: bool,
}

/// Tries every way to split the sorted values into three levels, under both shifts; the best one is then rounded to the grid.
#[inline(always)]
fn search(way: impl Way, values: &[f32; 32], weights: &[f32; 32]) -> Option<Found> {
    let order = ascending(values);
    let (mut sums_x, mut sums_w) = ([0.0; 33], [0.0; 33]);
    for (rank, &column) in order.iter().enumerate() {
        sums_x[rank + 1] = sums_x[rank] + weights[column] * values[column];
        sums_w[rank + 1] = sums_w[rank] + weights[column];
    }
    let fit = |first: usize, second: usize, shift: &Shift| {
        let part = |sums: &[f32; 33]| [sums[first] - sums[0], sums[second] - sums[first], sums[32] - sums[second]];
        let (x, w) = (part(&sums_x), part(&sums_w));
        Fit {
            qx: x[0] * shift[0] + x[1] * shift[1] + x[2] * shift[2],
            qq: w[0] * shift[0] * shift[0] + w[1] * shift[1] * shift[1] + w[2] * shift[2] * shift[2],
        }
    };
    let mut best = f32::MIN;
    let mut chosen = None;
    for first in 0..=32 {
        for second in first..=32 {
            for (down, shift) in [(false, &UP), (true, &DOWN)] {
                let fit = fit(first, second, shift);
                if fit.beats(best) {
                    let scale = fit.qx / fit.qq;
                    best = scale * fit.qx;
                    chosen = Some((first, second, down, scale));
                }
            }
        }
    }
    let (first, second, down, scale) = chosen?;
    let turned = scale < 0.0;
    let levels = split(&order, first, second, turned);
    let (down, mut scale) = (down != turned, if turned { -scale } else { scale });
    let shift = if down { DOWN } else { UP };

    let (values, _) = values.as_chunks::<8>();
    let (weights, _) = weights.as_chunks::<8>();
    let (levels, _) = levels.as_chunks::<8>();
    let mut points = [0; 4];
    let mut any_off = false;
    for (place, point) in points.iter_mut().enumerate() {
        let off;
        (*point, off) = choose(way, levels[place], &values[place], &weights[place], scale, &shift);
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
    // Overflowing sums: the reference stops its process here.
    if scale.is_nan() {
        scale = 0.0;
    }
    Some(Found { scale, points, down })
}

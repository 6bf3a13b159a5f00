//! Rotary positions.

use core::f32::consts::PI;

use ggmill_arch::graph::{Extent, Rope, RopeStyle, Yarn};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSliceMut as _;

use crate::error::{Result, room};

/// Sines and cosines of every position up to the longest text.
#[derive(Debug)]
pub(crate) struct Turns {
    /// For each position, the cosine of each pair.
    cosines: Vec<f32>,
    sines: Vec<f32>,
    pairs: usize,
}

impl Turns {
    pub(crate) fn of(rope: &Rope, factors: Option<&[f32]>, positions: usize) -> Result<Self> {
        let pairs = (rope.length / 2) as usize;
        let step = libm::powf(rope.base, -2.0 / rope.length as f32);
        let mixes = rope.yarn.map(|yarn| mixes(rope, yarn));
        let (mut cosines, mut sines) = (room(pairs * positions)?, room(pairs * positions)?);
        let rows = cosines.chunks_exact_mut(pairs).zip(sines.chunks_exact_mut(pairs));
        for (position, (cosines, sines)) in rows.enumerate() {
            // The angle is multiplied again and again in single precision, as all programs do it.
            let mut angle = position as f32;
            for pair in 0..pairs {
                let whole = angle / factors.map_or(1.0, |factors| factors[pair]);
                let scaled = rope.scale * whole;
                let turn = mixes
                    .as_ref()
                    .map_or(scaled, |mixes| scaled * (1.0 - mixes[pair]) + whole * mixes[pair]);
                cosines[pair] = libm::cosf(turn) * rope.magnitude;
                sines[pair] = libm::sinf(turn) * rope.magnitude;
                angle *= step;
            }
        }
        Ok(Self { cosines, sines, pairs })
    }

    /// Rotates the first numbers of each part; `position` has the position of each token.
    pub(crate) fn rotate(&self, values: &mut [f32], extent: Extent, rope: &Rope, position: &[u32]) {
        let (width, length) = (extent.elements() as usize, extent.length as usize);
        let direction = if rope.back { -1.0 } else { 1.0 };
        let rotate = |x: &mut f32, y: &mut f32, (cos, sin): (&f32, &f32)| {
            let sin = sin * direction;
            (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
        };
        values
            .par_chunks_mut(width)
            .zip_eq(rayon::iter::IntoParallelRefIterator::par_iter(position))
            .for_each(|(row, &position)| {
                let start = position as usize * self.pairs;
                let cosines = &self.cosines[start..start + self.pairs];
                let sines = &self.sines[start..start + self.pairs];
                for part in row.chunks_exact_mut(length) {
                    let turns = cosines.iter().zip(sines);
                    if rope.style == RopeStyle::Pairs {
                        for ([x, y], turn) in part.as_chunks_mut().0.iter_mut().zip(turns) {
                            rotate(x, y, turn);
                        }
                    } else {
                        let (left, right) = part.split_at_mut(self.pairs);
                        for ((x, y), turn) in left.iter_mut().zip(right).zip(turns) {
                            rotate(x, y, turn);
                        }
                    }
                }
            });
    }
}

/// How much of the angle of each pair is not scaled.
fn mixes(rope: &Rope, yarn: Yarn) -> Vec<f32> {
    let length = rope.length as f32;
    // The pair that turns so often within the context.
    let pair_of = |turns: f32| {
        length * libm::logf(yarn.context / (turns * 2.0 * PI)) / (2.0 * libm::logf(rope.base))
    };
    let low = pair_of(yarn.fast).floor().max(0.0);
    let high = pair_of(yarn.slow).ceil().min(length - 1.0);
    let mix = |pair: u64| {
        let ramp = (pair as f32 - low) / (high - low).max(0.001);
        (1.0 - ramp.clamp(0.0, 1.0)) * yarn.share
    };
    (0..rope.length / 2).map(mix).collect()
}

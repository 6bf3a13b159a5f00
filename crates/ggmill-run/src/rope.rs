//! Rotary positions.

use core::f32::consts::PI;

use ggmill_arch::graph::{Extent, Rope, RopeStyle, Yarn};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSliceMut as _;

/// Sines and cosines of every position up to the longest text.
pub(crate) struct Turns {
    /// For each position, the cosine and the sine of each pair.
    values: Vec<(f32, f32)>,
    pairs: usize,
}

impl Turns {
    pub(crate) fn of(rope: &Rope, factors: Option<&[f32]>, positions: usize) -> Self {
        let pairs = (rope.length / 2) as usize;
        let step = libm::powf(rope.base, -2.0 / rope.length as f32);
        let mixes = rope.yarn.map(|yarn| mixes(rope, yarn));
        let mut values = Vec::with_capacity(pairs * positions);
        for position in 0..positions {
            // The angle is multiplied again and again in single precision, as all programs do it.
            let mut angle = position as f32;
            for pair in 0..pairs {
                let whole = angle / factors.map_or(1.0, |factors| factors[pair]);
                let scaled = rope.scale * whole;
                let turn = mixes
                    .as_ref()
                    .map_or(scaled, |mixes| scaled * (1.0 - mixes[pair]) + whole * mixes[pair]);
                values.push((libm::cosf(turn) * rope.magnitude, libm::sinf(turn) * rope.magnitude));
                angle *= step;
            }
        }
        Self { values, pairs }
    }

    /// Rotates the first numbers of each part; `position` has the position of each token.
    pub(crate) fn rotate(
        &self,
        values: &mut [f32],
        extent: Extent,
        style: RopeStyle,
        position: &[u32],
    ) {
        let (width, length) = (extent.elements() as usize, extent.length as usize);
        values
            .par_chunks_mut(width)
            .zip_eq(rayon::iter::IntoParallelRefIterator::par_iter(position))
            .for_each(|(row, &position)| {
                let turns = &self.values[position as usize * self.pairs..][..self.pairs];
                for part in row.chunks_exact_mut(length) {
                    for (pair, &(cos, sin)) in turns.iter().enumerate() {
                        let (a, b) = match style {
                            RopeStyle::Pairs => (2 * pair, 2 * pair + 1),
                            _ => (pair, pair + self.pairs),
                        };
                        let (x, y) = (part[a], part[b]);
                        part[a] = x * cos - y * sin;
                        part[b] = x * sin + y * cos;
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

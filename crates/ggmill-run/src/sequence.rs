//! Operations along the sequence: rotary embeddings, convolutions, recurrences, pooling, hashed n-grams.

use core::f32::consts::PI;
use core::ops::Range;

use ggmill_arch::graph::{Extent, Growth, HashedRows, Recurrence, Rope, RopeStyle, Yarn};
use ggmill_quant::{Isa, functions};
use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};
use rayon::slice::ParallelSliceMut as _;

use crate::error::{Result, try_zeros};

/// The rotation table of a rotary embedding: cosines and sines for every position of the longest text.
#[derive(Debug)]
pub(crate) struct RopeTable {
    /// A row per position, in it the cosine of each pair.
    cosines: Vec<f32>,
    sines: Vec<f32>,
    pairs: usize,
}

impl RopeTable {
    pub(crate) fn of(rope: &Rope, factors: Option<&[f32]>, positions: usize) -> Result<Self> {
        let pairs = (rope.length / 2) as usize;
        let step = libm::powf(rope.base, -2.0 / rope.length as f32);
        let mixes = rope.yarn.map(|yarn| yarn_mixes(rope, yarn));
        let (mut cosines, mut sines) =
            (try_zeros(pairs * positions)?, try_zeros(pairs * positions)?);
        let rows = cosines.chunks_exact_mut(pairs).zip(sines.chunks_exact_mut(pairs));
        for (position, (cosines, sines)) in rows.enumerate() {
            // The angle is multiplied by `step` repeatedly in single precision, as in llama.cpp.
            let mut angle = position as f32;
            for pair in 0..pairs {
                let whole = angle / factors.map_or(1.0, |factors| factors[pair]);
                let scaled = rope.scale * whole;
                let rotation = mixes
                    .as_ref()
                    .map_or(scaled, |mixes| scaled * (1.0 - mixes[pair]) + whole * mixes[pair]);
                cosines[pair] = libm::cosf(rotation) * rope.magnitude;
                sines[pair] = libm::sinf(rotation) * rope.magnitude;
                angle *= step;
            }
        }
        Ok(Self { cosines, sines, pairs })
    }

    /// Rotates the first `rope.length` elements of each part by the position of its token.
    pub(crate) fn rotate(&self, values: &mut [f32], extent: Extent, rope: &Rope, position: &[u32]) {
        let (width, length) = (extent.elements() as usize, extent.length as usize);
        let direction = if rope.back { -1.0 } else { 1.0 };
        let rotate = |x: &mut f32, y: &mut f32, (cos, sin): (&f32, &f32)| {
            let sin = sin * direction;
            (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
        };
        values.par_chunks_mut(width).zip_eq(position.par_iter()).for_each(|(row, &position)| {
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

/// Returns the YaRN ramp of each pair: the share of the unscaled angle (extrapolation).
fn yarn_mixes(rope: &Rope, yarn: Yarn) -> Vec<f32> {
    let length = rope.length as f32;
    // The pair that rotates `turns` times within the original context.
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

/// Multiplies the elements of each token by a factor that grows with its position (attention temperature
/// scaling).
pub(crate) fn scale_by_position(
    values: &mut [f32],
    width: usize,
    growth: Growth,
    positions: &[u32],
) {
    let rows = values.par_chunks_mut(width.max(1)).zip(positions.par_iter());
    rows.for_each(|(row, &position)| {
        let steps = ((position as f32 + growth.offset) / growth.length).floor();
        let factor = libm::logf(steps + 1.0) * growth.factor + 1.0;
        for value in row {
            *value *= factor;
        }
    });
}

/// Copies the elements of the previous token, or of the next one if `ahead`. A token without such a
/// neighbor gets zeros.
pub(crate) fn shift(
    values: &[f32],
    width: usize,
    ahead: bool,
    texts: &[Range<usize>],
    out: &mut [f32],
) {
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let (start, end) = (text.start * width, text.end * width);
        if ahead {
            out[start..end - width].copy_from_slice(&values[start + width..end]);
            out[end - width..end].fill(0.0);
        } else {
            out[start..start + width].fill(0.0);
            out[start + width..end].copy_from_slice(&values[start..end - width]);
        }
    }
}

/// Computes a causal depthwise convolution along each text, then adds a bias. `kernel` has a row of taps
/// per channel, the tap of the current token last; `dilation` is the distance of taps in tokens.
pub(crate) fn convolution(
    values: &[f32],
    width: usize,
    (kernel, dilation): (&[f32], usize),
    bias: Option<&[f32]>,
    positions: &[u32],
    out: &mut [f32],
) {
    let taps = kernel.len() / width.max(1);
    let rows = out.par_chunks_mut(width.max(1)).zip(positions.par_iter()).enumerate();
    rows.for_each(|(token, (out, &position))| {
        // Taps before the beginning of the text are skipped.
        let first = taps.saturating_sub(position as usize / dilation + 1);
        out.fill(0.0);
        for tap in first..taps {
            let row = &values[(token - (taps - 1 - tap) * dilation) * width..][..width];
            for ((out, value), taps_of_one) in
                out.iter_mut().zip(row).zip(kernel.chunks_exact(taps))
            {
                *out += value * taps_of_one[tap];
            }
        }
        for (out, bias) in out.iter_mut().zip(bias.unwrap_or_default()) {
            *out += bias;
        }
    });
}

/// The operands of a recurrence, for all tokens, each with its extent.
pub(crate) struct Operands<'a> {
    pub(crate) queries: (&'a [f32], Extent),
    pub(crate) keys: (&'a [f32], Extent),
    pub(crate) values: (&'a [f32], Extent),
    pub(crate) decays: (&'a [f32], Extent),
    /// The `read` and `write` vectors of the delta rule, which adds `write ⊗ (stateᵀ · read)` to the state.
    pub(crate) delta: Option<[(&'a [f32], Extent); 2]>,
    /// Decay rates per head and key element: the state is multiplied by `exp(decay · rate)`.
    pub(crate) rates: Option<&'a [f32]>,
}

/// Computes a linear recurrence over all texts, the heads of a text in parallel. `by_head` is a buffer of
/// the size of `out` for the results in head-major order.
pub(crate) fn recurrence(
    options: Recurrence,
    operands: &Operands<'_>,
    texts: &[Range<usize>],
    by_head: &mut [f32],
    out: &mut [f32],
) -> Result<()> {
    let extent = operands.values.1;
    let (heads, length) = (extent.parts.unwrap_or(1) as usize, extent.length as usize);
    let width = heads * length;
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let rows = text.start * width..text.end * width;
        let by_head = &mut by_head[rows.clone()];
        let run = text.len() * length;
        by_head.par_chunks_mut(run).enumerate().try_for_each(|(number, out)| {
            Head { options, operands, heads, number }.run(text.clone(), out)
        })?;
        out[rows].par_chunks_mut(width).enumerate().for_each(|(token, row)| {
            for (out, values) in row.chunks_exact_mut(length).zip(by_head.chunks_exact(run)) {
                out.copy_from_slice(&values[token * length..][..length]);
            }
        });
    }
    Ok(())
}

/// A head of a recurrence.
struct Head<'a> {
    options: Recurrence,
    operands: &'a Operands<'a>,
    heads: usize,
    number: usize,
}

impl Head<'_> {
    /// Returns the vector of this head, or of the group that it belongs to.
    fn of<'v>(&self, (values, extent): (&'v [f32], Extent), token: usize) -> &'v [f32] {
        let (parts, length) = (extent.parts.unwrap_or(1) as usize, extent.length as usize);
        let part = self.number * parts / self.heads;
        &values[(token * parts + part) * length..][..length]
    }

    /// Runs the recurrence over a text; `out` gets a vector per token.
    fn run(&self, text: Range<usize>, out: &mut [f32]) -> Result<()> {
        let operands = self.operands;
        let keys = operands.keys.1.length as usize;
        let length = operands.values.1.length as usize;
        // A row per key element, so that the elements of a value are contiguous.
        let mut state = try_zeros(keys * length)?;
        let mut read = try_zeros(length)?;
        for (token, out) in text.zip(out.chunks_exact_mut(length)) {
            let query = self.of(operands.queries, token);
            if self.options.output_before_update {
                weighted_row_sum(&state, query, out);
            }
            let delta = operands.delta.map(|delta| delta.map(|values| self.of(values, token)));
            let [read_vector, write_vector] = delta.unwrap_or([&[]; 2]);
            if !read_vector.is_empty() {
                weighted_row_sum(&state, read_vector, &mut read);
            }
            let key = self.of(operands.keys, token);
            let value = self.of(operands.values, token);
            let decay = self.of(operands.decays, token);
            for (place, row) in state.chunks_exact_mut(length).enumerate() {
                let single = decay.get(place).or(decay.first()).copied().unwrap_or(1.0);
                let decay = match operands.rates {
                    Some(rates) => libm::expf(single * rates[self.number * keys + place]),
                    None => single,
                };
                let key = key[place];
                match write_vector.get(place) {
                    Some(write) => {
                        for ((state, value), read) in row.iter_mut().zip(value).zip(&read) {
                            *state = *state * decay + write * read + key * value;
                        }
                    }
                    None => {
                        for (state, value) in row.iter_mut().zip(value) {
                            *state = *state * decay + key * value;
                        }
                    }
                }
            }
            if !self.options.output_before_update {
                weighted_row_sum(&state, query, out);
            }
        }
        Ok(())
    }
}

/// Writes `stateᵀ · by`: the sum of the rows of a state, each multiplied by its element of `by`.
fn weighted_row_sum(state: &[f32], by: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    for (row, by) in state.chunks_exact(out.len()).zip(by) {
        for (out, value) in out.iter_mut().zip(row) {
            *out += by * value;
        }
    }
}

/// Pools runs of `run` tokens: writes, at the first token of each complete run, the sum of the values of
/// the run's tokens weighted by the softmax of their scores, per channel. Other tokens get zeros. If
/// values have several parts, the last part is used for tokens of the run itself, the part before it for
/// tokens of the previous run, and so on: runs overlap.
pub(crate) fn pool(
    isa: Isa,
    [values, scores]: [&[f32]; 2],
    width: usize,
    run: usize,
    texts: &[Range<usize>],
    out: &mut [f32],
) {
    out.fill(0.0);
    let tokens: usize = texts.iter().map(ExactSizeIterator::len).sum();
    let parts = values.len() / (tokens * width).max(1);
    let mut rest = out;
    for text in texts {
        let (out, others) = rest.split_at_mut(text.len() * width);
        rest = others;
        // `par_chunks_exact_mut` skips an incomplete run at the end.
        let size = run.saturating_mul(width).max(1);
        out.par_chunks_exact_mut(size).enumerate().for_each_init(
            Vec::new,
            |shares, (number, out)| {
                // Runs before the beginning of the text are skipped.
                let first = (number + 1).saturating_sub(parts);
                let taken = (first..=number).flat_map(|of| {
                    let part = parts - 1 - (number - of);
                    let tokens = text.start + of * run..text.start + (of + 1) * run;
                    tokens.map(move |token| (token * parts + part) * width)
                });
                for (place, out) in out.iter_mut().take(width).enumerate() {
                    shares.clear();
                    shares.extend(taken.clone().map(|start| scores[start + place]));
                    functions::softmax(isa, shares, 1.0, None);
                    let products = taken.clone().zip(&*shares);
                    *out = products
                        .fold(0.0, |sum, (start, share)| sum + values[start + place] * share);
                }
            },
        );
    }
}

/// Returns the table row of each n-gram hash, for each token of each text.
pub(crate) fn hashed_row_numbers(
    hashed: &HashedRows,
    tokens: &[u32],
    texts: &[Range<usize>],
) -> Result<Vec<u64>> {
    let count = hashed.sizes.len();
    let hashes_per_length = (count / hashed.multipliers.len().saturating_sub(1).max(1)).max(1);
    let mut rows = try_zeros(tokens.len() * count)?;
    let mut rest = rows.chunks_exact_mut(count.max(1));
    for text in texts {
        let text = &tokens[text.clone()];
        for (place, rows) in rest.by_ref().take(text.len()).enumerate() {
            // The n-gram does not extend beyond an end-of-text token or the beginning of the text: both are
            // padded with end-of-text tokens.
            let before = text[..place].iter().rev().map(|&token| u64::from(token));
            let before = before.take_while(|&token| token != hashed.end);
            let before = before.chain(core::iter::repeat(hashed.end));
            let mut products = core::iter::once(u64::from(text[place]))
                .chain(before)
                .zip(&hashed.multipliers)
                .map(|(token, &multiplier)| token.wrapping_mul(multiplier));
            let mut hash = products.next().unwrap_or(0);
            for (number, product) in products.enumerate() {
                hash ^= product;
                let hashes_of_length =
                    number * hashes_per_length..((number + 1) * hashes_per_length).min(count);
                for place in hashes_of_length {
                    rows[place] = hash % hashed.sizes[place].max(1) + hashed.offsets[place];
                }
            }
        }
    }
    Ok(rows)
}

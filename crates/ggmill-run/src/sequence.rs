//! Operations that go through a text token by token, and those that depend on the place in it.

use core::ops::Range;

use ggmill_arch::graph::{Extent, Growth, Recurrence};
use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};
use rayon::slice::ParallelSliceMut as _;

use crate::error::{Result, room};

/// Multiplies the numbers of each token by a number that grows with its place in the text.
pub(crate) fn by_position(values: &mut [f32], width: usize, growth: Growth, positions: &[u32]) {
    let rows = values.par_chunks_mut(width.max(1)).zip(positions.par_iter());
    rows.for_each(|(row, &position)| {
        let steps = ((position as f32 + growth.offset) / growth.length).floor();
        let factor = libm::logf(steps + 1.0) * growth.factor + 1.0;
        for value in row {
            *value *= factor;
        }
    });
}

/// What the token before has, or the next one; 0 for the first of each text, or the last.
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

/// For each number the sum of its last values in the text, or of some of them with so many tokens from
/// one to the next, the oldest first, each multiplied by one of its taps, and then the bias.
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
        // The text begins within the taps.
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

/// The operands of a recurrence: numbers of all tokens, and how they are divided.
pub(crate) struct Operands<'a> {
    pub(crate) queries: (&'a [f32], Extent),
    pub(crate) keys: (&'a [f32], Extent),
    pub(crate) values: (&'a [f32], Extent),
    pub(crate) decays: (&'a [f32], Extent),
    /// What is read, and where it is added.
    pub(crate) moves: Option<[(&'a [f32], Extent); 2]>,
    pub(crate) rates: Option<&'a [f32]>,
}

/// The recurrence over all texts: all heads of a text side by side. The results are written head by
/// head into `by_head`, and from there token by token into `out`.
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

struct Head<'a> {
    options: Recurrence,
    operands: &'a Operands<'a>,
    heads: usize,
    number: usize,
}

impl Head<'_> {
    /// The numbers of this head, or of the one that it shares with others.
    fn of<'v>(&self, (values, extent): (&'v [f32], Extent), token: usize) -> &'v [f32] {
        let (parts, length) = (extent.parts.unwrap_or(1) as usize, extent.length as usize);
        let part = self.number * parts / self.heads;
        &values[(token * parts + part) * length..][..length]
    }

    fn run(&self, text: Range<usize>, out: &mut [f32]) -> Result<()> {
        let operands = self.operands;
        let keys = operands.keys.1.length as usize;
        let length = operands.values.1.length as usize;
        // A row for each number of a key, so that the numbers of a value are neighbours.
        let mut state = room(keys * length)?;
        let mut read = room(length)?;
        for (token, out) in text.zip(out.chunks_exact_mut(length)) {
            let query = self.of(operands.queries, token);
            if self.options.before {
                product(&state, query, out);
            }
            let moves = operands.moves.map(|moves| moves.map(|values| self.of(values, token)));
            let [from, to] = moves.unwrap_or([&[]; 2]);
            if !from.is_empty() {
                product(&state, from, &mut read);
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
                match to.get(place) {
                    Some(to) => {
                        for ((state, value), read) in row.iter_mut().zip(value).zip(&read) {
                            *state = *state * decay + to * read + key * value;
                        }
                    }
                    None => {
                        for (state, value) in row.iter_mut().zip(value) {
                            *state = *state * decay + key * value;
                        }
                    }
                }
            }
            if !self.options.before {
                product(&state, query, out);
            }
        }
        Ok(())
    }
}

/// The sum of the rows, each multiplied by its number, in order.
fn product(state: &[f32], by: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    for (row, by) in state.chunks_exact(out.len()).zip(by) {
        for (out, value) in out.iter_mut().zip(row) {
            *out += by * value;
        }
    }
}

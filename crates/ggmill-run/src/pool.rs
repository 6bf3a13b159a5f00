//! What the tokens of a run become together.

use core::ops::Range;

use ggmill_quant::{Isa, functions};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSliceMut as _;

/// For the first token of each whole run, number by number: the sum of the values of its tokens, each
/// multiplied by the softmax of its score. Where values have several parts, the last one is of the run,
/// the one before it of the run before, and so on. Other tokens have 0.
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
        // A run that is not whole is longer than what is left.
        let size = run.saturating_mul(width).max(1);
        out.par_chunks_exact_mut(size).enumerate().for_each_init(
            Vec::new,
            |shares, (number, out)| {
                // The tokens, with the part of each: none before the text.
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

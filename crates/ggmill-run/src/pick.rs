//! The tokens that attention is restricted to: those with the greatest scores of an indexer.

use core::ops::Range;

use ggmill_arch::graph::{Extent, Pick};
use ggmill_quant::{Isa, Panels, Rows};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use crate::attention::{Picks, QUERIES};
use crate::error::{Error, Result, room};

/// How many tokens are picked together.
pub(crate) fn run_length(options: Pick) -> usize {
    usize::try_from(options.block.max(1)).unwrap_or(usize::MAX)
}

/// Queries and keys of all texts, and for each head of the queries a weight, where the scores of all
/// are added up.
pub(crate) struct Indexer<'a> {
    pub(crate) queries: (&'a [f32], Extent),
    pub(crate) keys: (&'a [f32], Extent),
    pub(crate) weights: Option<&'a [f32]>,
}

/// The runs of tokens with the greatest scores, for each token of all texts, of those up to that of
/// the token; in the order of the text.
pub(crate) fn pick(
    isa: Isa,
    options: Pick,
    operands: &Indexer<'_>,
    texts: &[Range<usize>],
) -> Result<Vec<u32>> {
    let heads = operands.queries.1.parts.unwrap_or(1) as usize;
    let results = if options.weighted { 1 } else { heads };
    let longest = texts.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let total: usize = texts.iter().map(ExactSizeIterator::len).sum();
    let runs = longest.div_ceil(run_length(options)) as u64;
    // One that is not whole is picked besides.
    let count = (options.count.min(runs) + u64::from(options.whole)) as usize;
    let size = total * results * count;
    let mut places = Vec::new();
    places.try_reserve_exact(size).map_err(|_| Error::memory(size))?;
    places.resize(size, Picks::NONE);
    let width = results * count;
    let mut rest = &mut places[..];
    for text in texts {
        let (out, others) = rest.split_at_mut(text.len() * width);
        rest = others;
        let mut keys = Panels::default();
        let (values, length) = (operands.keys.0, operands.keys.1.elements() as usize);
        let values = values.get(text.start * length..).unwrap_or_default();
        let step = if options.whole { run_length(options) } else { 1 };
        let stride = step.saturating_mul(length);
        keys.pack_rows(&Rows::new(values, text.len() / step, stride, length)?)?;
        let tasks: Vec<(usize, &mut [u32])> =
            out.chunks_mut((QUERIES * width).max(1)).enumerate().collect();
        tasks.into_par_iter().try_for_each(|(number, out)| {
            let work = Work { isa, options, operands, keys: &keys, heads, results, count };
            work.queries(text, number * QUERIES, out)
        })?;
    }
    Ok(places)
}

/// The keys of a text, and what is picked from them.
struct Work<'a> {
    isa: Isa,
    options: Pick,
    operands: &'a Indexer<'a>,
    keys: &'a Panels,
    heads: usize,
    /// How many heads pick, and how many runs each.
    results: usize,
    count: usize,
}

impl Work<'_> {
    /// Picks for some tokens of a text, from `first` on.
    fn queries(&self, text: &Range<usize>, first: usize, out: &mut [u32]) -> Result<()> {
        let width = self.results * self.count;
        let tokens = out.len() / width.max(1);
        let seen = self.keys_for(first + tokens);
        let mut scores = room(tokens * seen)?;
        let mut sums = room(tokens * seen)?;
        let length = self.operands.queries.1.length as usize;
        for head in 0..self.heads {
            let start = ((text.start + first) * self.heads + head) * length;
            let queries = self.operands.queries.0.get(start..).unwrap_or_default();
            let left = Rows::new(queries, tokens, self.heads * length, length)?;
            self.keys.multiply_part(self.isa, 0..seen, 0..length, &left, &mut scores, seen)?;
            match self.operands.weights {
                Some(weights) => {
                    for token in 0..tokens {
                        let weight = weights[(text.start + first + token) * self.heads + head];
                        let row = token * seen..(token + 1) * seen;
                        for (sum, score) in sums[row.clone()].iter_mut().zip(&scores[row]) {
                            *sum += score.max(0.0) * weight;
                        }
                    }
                }
                None => {
                    for token in 0..tokens {
                        let out = &mut out[token * width + head * self.count..][..self.count];
                        self.choose(&scores[token * seen..], first + token, out);
                    }
                }
            }
        }
        if self.operands.weights.is_some() {
            for token in 0..tokens {
                let out = &mut out[token * width..][..self.count];
                self.choose(&sums[token * seen..], first + token, out);
            }
        }
        Ok(())
    }

    /// How many keys there are for so many tokens.
    fn keys_for(&self, tokens: usize) -> usize {
        if self.options.whole { tokens / run_length(self.options) } else { tokens }
    }

    /// The runs with the greatest scores, each with that of its best token, in the order of the text.
    /// The first of equal ones are taken first, and NaN last. Where whole runs are picked, the one that
    /// the token is in is picked besides if it is not whole.
    fn choose(&self, scores: &[f32], token: usize, out: &mut [u32]) {
        let Pick { whole, .. } = self.options;
        let run = run_length(self.options);
        let best: Vec<f32> = scores[..self.keys_for(token + 1)]
            .chunks(if whole { 1 } else { run })
            .map(|run| run.iter().copied().fold(f32::NAN, f32::max))
            .collect();
        let local = usize::try_from(self.options.local).unwrap_or(usize::MAX);
        let near = best.len().saturating_sub(local);
        let mut order: Vec<u32> = (0u32..).take(best.len()).collect();
        let count = out.len() - usize::from(whole);
        if count < order.len() {
            order.select_nth_unstable_by(count, |&a, &b| {
                let (x, y) = (a as usize, b as usize);
                let far = (x < near).cmp(&(y < near));
                let (p, q) = (best[x], best[y]);
                let by_number = q.partial_cmp(&p).unwrap_or_else(|| p.is_nan().cmp(&q.is_nan()));
                far.then(by_number).then(a.cmp(&b))
            });
            order.truncate(count);
            order.sort_unstable();
        }
        if whole && !(token + 1).is_multiple_of(run) {
            order.push((token / run) as u32);
        }
        for (out, place) in out.iter_mut().zip(order) {
            *out = place;
        }
    }
}

//! Attention with masks, ALiBi, sinks and relative position buckets (T5), restricted to the tokens that
//! an indexer picks (sparse attention), and to pooled runs of tokens.

use core::ops::Range;

use ggmill_arch::graph::{Attention, Buckets, Extent, TokenSelection};
use ggmill_quant::{Isa, Panels, Rows, functions};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use crate::error::{Error, Result, try_zeros};
use crate::matrix::ROWS_PER_TASK;

/// The number of queries per task. Their scores are in memory at the same time.
pub(crate) const QUERIES_PER_TASK: usize = ROWS_PER_TASK;

/// Queries, keys and values of all texts, each with its extent per token.
pub(crate) struct Operands<'a> {
    pub(crate) queries: (&'a [f32], Extent),
    pub(crate) keys: (&'a [f32], Extent),
    pub(crate) values: (&'a [f32], Extent),
    /// Pooled keys and values of runs of tokens, at the first token of each run.
    pub(crate) runs: Option<[&'a [f32]; 2]>,
}

/// Optional operands.
pub(crate) struct OptionalOperands<'a> {
    /// Attention sinks: one additional score per head, which belongs to no token.
    pub(crate) sinks: Option<&'a [f32]>,
    /// Relative position biases: a row per bucket, in it a number per head.
    pub(crate) buckets: Option<&'a [f32]>,
    /// The tokens or runs that each query is restricted to.
    pub(crate) picks: Option<Picks<'a>>,
}

/// The runs of tokens that an indexer picked for each token.
#[derive(Clone, Copy)]
pub(crate) struct Picks<'a> {
    /// Run indices in ascending order, by token, then by head: the same number per head and token.
    pub(crate) runs: &'a [u32],
    /// The number of indexer heads.
    pub(crate) heads: usize,
    /// The number of tokens per run.
    pub(crate) run_length: usize,
}

impl<'a> Picks<'a> {
    /// Fills the list of a head that picked fewer runs.
    pub(crate) const NONE: u32 = u32::MAX;

    /// Returns the runs that a head picked for a token; `tokens` is the number of tokens of all texts.
    pub(crate) fn of(&self, token: usize, head: usize, tokens: usize) -> &'a [u32] {
        let count = self.runs.len() / (tokens * self.heads).max(1);
        &self.runs[(token * self.heads + head) * count..][..count]
    }
}

/// Consecutive queries of a text, with the buffer for their results.
struct Task<'a> {
    text: usize,
    first: usize,
    out: &'a mut [f32],
}

/// Computes attention for all heads and texts. Each text is paired with the token range that it attends
/// to: itself, or its source.
pub(crate) fn attention(
    isa: Isa,
    options: &Attention,
    operands: &Operands<'_>,
    optional: &OptionalOperands<'_>,
    texts: &[(Range<usize>, Range<usize>)],
    out: &mut [f32],
) -> Result<()> {
    let heads = operands.queries.1.parts.unwrap_or(1) as usize;
    let kv_heads = operands.keys.1.parts.unwrap_or(1) as usize;
    let packed: Vec<(Range<usize>, usize)> = texts
        .iter()
        .flat_map(|(_, to)| (0..kv_heads).map(move |head| (to.clone(), head)))
        .collect();
    let (k, v) = (operands.keys.1, operands.values.1);
    let run = usize::try_from(options.run).unwrap_or(usize::MAX);
    let pack = |(text, head): (Range<usize>, usize)| {
        let of = |[keys, values]: [&[f32]; 2], step: usize| {
            let (mut packed_keys, mut packed_values) = (Panels::default(), Panels::default());
            packed_keys.pack_rows(&rows_of((keys, k), &text, step, head)?)?;
            packed_values.pack_transposed(&rows_of((values, v), &text, step, head)?)?;
            Ok::<_, Error>((packed_keys, packed_values))
        };
        let runs = operands.runs.map(|runs| of(runs, run)).transpose()?;
        Ok::<_, Error>((of([operands.keys.0, operands.values.0], 1)?, runs))
    };
    let packed: Vec<PackedKeysValues> = packed.into_par_iter().map(pack).collect::<Result<_>>()?;
    let width = heads * operands.values.1.length as usize;
    let mut tasks = Vec::new();
    let mut rest = out;
    for (text, (range, _)) in texts.iter().enumerate() {
        let (out, others) = rest.split_at_mut(range.len() * width);
        rest = others;
        for (number, out) in out.chunks_mut((QUERIES_PER_TASK * width).max(1)).enumerate() {
            tasks.push(Task { text, first: number * QUERIES_PER_TASK, out });
        }
    }
    // The last tasks of a text take longest, so they start first.
    tasks.reverse();
    let longest = texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
    let biases = Biases::new(options, optional.buckets, heads, longest)?;
    let total: usize = texts.iter().map(|(text, _)| text.len()).sum();
    let slopes: Vec<f32> = (0..heads).map(|head| alibi_slope(options.alibi, heads, head)).collect();
    tasks.into_par_iter().try_for_each_init(Vec::new, |scores, task| {
        let (range, to) = &texts[task.text];
        for head in 0..heads {
            let packed = &packed[task.text * kv_heads + head / (heads / kv_heads)];
            let sink = optional.sinks.map(|sinks| sinks[head]);
            let (slope, biases) = (slopes[head], biases.as_ref());
            let picks = optional.picks.map(|picks| (picks, head * picks.heads / heads, total));
            let tokens = to.len();
            let work =
                Head { isa, options, number: head, slope, biases, sink, picks, packed, tokens };
            work.queries(operands.queries, range, task.first, width, task.out, scores)?;
        }
        Ok(())
    })
}

/// Returns the ALiBi slope of a head, which is subtracted from a score per token of distance.
fn alibi_slope(most: f32, heads: usize, head: usize) -> f32 {
    if most <= 0.0 {
        return 0.0;
    }
    let power = 1usize << heads.ilog2();
    let base = |bias: f32| libm::powf(2.0, -bias / power as f32);
    if head < power {
        libm::powf(base(most), (head + 1) as f32)
    } else {
        libm::powf(base(most / 2.0), (2 * (head - power) + 1) as f32)
    }
}

/// Returns the rows of a head for every `step`-th token of a range.
fn rows_of<'a>(
    (values, extent): (&'a [f32], Extent),
    tokens: &Range<usize>,
    step: usize,
    head: usize,
) -> Result<Rows<'a>> {
    let (width, length) = (extent.elements() as usize, extent.length as usize);
    let values = values.get(tokens.start * width + head * length..).unwrap_or_default();
    Ok(Rows::new(values, tokens.len() / step.max(1), step.saturating_mul(width), length)?)
}

/// Packed keys and values of a head for a text, and those of its runs, if the operation has runs.
type PackedKeysValues = ((Panels, Panels), Option<(Panels, Panels)>);

/// A query head on a text.
struct Head<'a> {
    isa: Isa,
    options: &'a Attention,
    number: usize,
    slope: f32,
    biases: Option<&'a Biases<'a>>,
    sink: Option<f32>,
    /// The picked runs, the index of the indexer head, and the number of tokens of all texts.
    picks: Option<(Picks<'a>, usize, usize)>,
    /// Packed keys and values of `tokens` tokens.
    packed: &'a PackedKeysValues,
    tokens: usize,
}

/// Reusable buffers for the tokens or runs that a query attends to, if not to all, and their scores.
#[derive(Default)]
struct Selection {
    indices: Vec<usize>,
    scores: Vec<f32>,
}

impl Selection {
    fn clear(&mut self) {
        self.indices.clear();
        self.scores.clear();
    }
}

impl Head<'_> {
    /// Writes the results of this head for the queries from `first` on into `out`, which has a row of
    /// `width` numbers per query, for all heads.
    fn queries(
        &self,
        queries: (&[f32], Extent),
        text: &Range<usize>,
        first: usize,
        width: usize,
        out: &mut [f32],
        scores: &mut Vec<f32>,
    ) -> Result<()> {
        let ((keys, values), runs) = self.packed;
        let count = out.len() / width;
        let tokens = text.start + first..text.start + first + count;
        // The keys that any of these queries attends to, extended to the beginning of a panel.
        let start = self.visible(first).start / Panels::WIDTH * Panels::WIDTH;
        let end = self.visible(first + count - 1).end;
        let seen = end - start;
        // A row has the scores of runs, then the scores of tokens.
        let of_runs = runs.as_ref().map_or(0, |_| self.runs_before(first + count));
        let width_of_row = of_runs + seen;
        if scores.len() < count * width_of_row {
            *scores = try_zeros(count * width_of_row)?;
        }
        let scores = &mut scores[..count * width_of_row];
        let left = rows_of(queries, &tokens, 1, self.number)?;
        let columns = queries.1.length as usize;
        if let Some((keys, _)) = runs {
            let runs = 0..of_runs;
            keys.multiply_part(self.isa, runs, 0..columns, &left, scores, width_of_row)?;
        }
        let of_tokens = &mut scores[of_runs..];
        keys.multiply_part(self.isa, start..end, 0..columns, &left, of_tokens, width_of_row)?;
        let mut selection = Selection::default();
        for (query, row) in scores.chunks_exact_mut(width_of_row).enumerate() {
            let (row_of_runs, row) = row.split_at_mut(of_runs);
            let visible = self.visible(first + query);
            let (before, row) = row.split_at_mut(visible.start - start);
            let (row, after) = row.split_at_mut(visible.len());
            before.fill(0.0);
            after.fill(0.0);
            let picked = self.picks.map(|(picks, head, total)| {
                (picks, picks.of(text.start + first + query, head, total))
            });
            match picked {
                _ if runs.is_some() => {
                    let picked = picked.map(|(_, picked)| picked);
                    self.softmax_with_runs(
                        first + query,
                        picked,
                        [row_of_runs, row],
                        &mut selection,
                    );
                }
                None => self.softmax_scores(first + query, visible.start.., row),
                Some((picks, picked)) => {
                    self.softmax_picked(
                        first + query,
                        picked,
                        picks.run_length,
                        row,
                        &mut selection,
                    );
                }
            }
        }
        let length = values.rows();
        let left = Rows::new(&scores[of_runs..], count, width_of_row, seen)?;
        let out = &mut out[self.number * length..];
        values.multiply_part(self.isa, 0..length, start..end, &left, out, width)?;
        if let Some((_, values)) = runs.as_ref().filter(|_| of_runs > 0) {
            let left = Rows::new(scores, count, width_of_row, of_runs)?;
            let mut more = try_zeros(count * length)?;
            values.multiply_part(self.isa, 0..length, 0..of_runs, &left, &mut more, length)?;
            for (out, more) in out.chunks_mut(width).zip(more.chunks_exact(length)) {
                out.iter_mut().zip(more).for_each(|(out, more)| *out += more);
            }
        }
        Ok(())
    }

    /// Returns the number of complete runs in the first `tokens` tokens.
    fn runs_before(&self, tokens: usize) -> usize {
        tokens / usize::try_from(self.options.run.max(1)).unwrap_or(usize::MAX)
    }

    /// Replaces the scores of a query by one softmax over its complete runs (or the picked ones) and its
    /// tokens.
    fn softmax_with_runs(
        &self,
        token: usize,
        picked: Option<&[u32]>,
        [of_runs, row]: [&mut [f32]; 2],
        selection: &mut Selection,
    ) {
        let whole = self.runs_before(token + 1);
        selection.clear();
        match picked {
            Some(picked) => {
                let runs = picked.iter().map(|&run| run as usize);
                selection.indices.extend(runs.filter(|&run| run < whole));
            }
            None => selection.indices.extend(0..whole),
        }
        selection.scores.extend(selection.indices.iter().map(|&run| of_runs[run]));
        selection.scores.extend_from_slice(row);
        self.softmax_scores(token, 0.., &mut selection.scores);
        let (shares_of_runs, shares) = selection.scores.split_at(selection.indices.len());
        of_runs.fill(0.0);
        for (&run, share) in selection.indices.iter().zip(shares_of_runs) {
            of_runs[run] = *share;
        }
        row.copy_from_slice(shares);
    }

    /// Returns the tokens that a query attends to under the causal, window and chunk masks.
    fn visible(&self, token: usize) -> Range<usize> {
        let (options, tokens) = (self.options, self.tokens);
        let (window, chunk) = (options.window as usize, options.chunk as usize);
        let mut seen = 0..tokens;
        if let Some(number) = token.checked_div(chunk) {
            seen.start = number * chunk;
            seen.end = tokens.min(seen.start.saturating_add(chunk));
        }
        if window > 0 {
            seen.start = seen.start.max((token + 1).saturating_sub(window));
        }
        let ahead = if options.causal { Some(0) } else { options.ahead };
        if let Some(ahead) = ahead {
            seen.end = seen.end.min((token + 1).saturating_add(ahead as usize));
        }
        seen
    }

    /// Replaces the scores of the picked tokens by their softmax, and the others by 0. The mask must be
    /// causal only, so that a row begins with the first token of the text.
    fn softmax_picked(
        &self,
        token: usize,
        picked: &[u32],
        run_length: usize,
        row: &mut [f32],
        selection: &mut Selection,
    ) {
        let runs = picked.iter().take_while(|&&place| place != Picks::NONE);
        let tokens = runs.flat_map(|&run| {
            let start = run as usize * run_length;
            start..(start + run_length).min(row.len())
        });
        selection.clear();
        selection.indices.extend(tokens);
        selection.scores.extend(selection.indices.iter().map(|&place| row[place]));
        self.softmax_scores(token, selection.indices.iter().copied(), &mut selection.scores);
        row.fill(0.0);
        for (&place, share) in selection.indices.iter().zip(&selection.scores) {
            row[place] = *share;
        }
    }

    /// Scales the scores of a query, applies the softcap and position biases, and replaces them by their
    /// softmax. `positions` are the positions of the keys.
    fn softmax_scores(
        &self,
        token: usize,
        positions: impl Iterator<Item = usize>,
        row: &mut [f32],
    ) {
        let options = self.options;
        if row.is_empty() {
            return;
        }
        if options.softcap == 0.0 && self.slope == 0.0 && self.biases.is_none() {
            functions::softmax(self.isa, row, options.scale, self.sink);
            return;
        }
        for (score, other) in row.iter_mut().zip(positions) {
            *score *= options.scale;
            if options.softcap != 0.0 {
                *score = options.softcap * libm::tanhf(*score / options.softcap);
            }
            if self.slope != 0.0 {
                *score -= self.slope * token.abs_diff(other) as f32;
            }
            if let Some(biases) = self.biases {
                *score += biases.of(self.number, token, other);
            }
        }
        functions::softmax(self.isa, row, 1.0, self.sink);
    }
}

/// Returns the index of the relative position bucket, of `count`, for a distance. Distances from `far` on
/// are in the last bucket. If attention is not causal, the second half of the buckets is for `later`
/// tokens (`llama_relative_position_bucket` in `src/llama-graph.cpp`).
fn bucket_of(count: u64, far: u64, distance: u64, later: bool, causal: bool) -> u64 {
    let half = if causal { count } else { count / 2 };
    let exact = half / 2;
    let start = if later && !causal { half } else { 0 };
    if distance < exact {
        return start + distance;
    }
    // The same precisions as in the reference.
    let ratio = |distance: u64| distance as f64 / exact as f64;
    let part = f64::from(libm::logf(ratio(distance) as f32)) / libm::log(ratio(far));
    let place = exact + ((half - exact) as f64 * part).floor() as u64;
    start + place.min(half - 1)
}

/// Relative position biases of scores (T5).
pub(crate) struct Biases<'a> {
    /// A row per bucket, in it a number per head.
    values: &'a [f32],
    heads: usize,
    /// The bucket of each distance, for earlier and for later keys.
    earlier: Vec<usize>,
    later: Vec<usize>,
}

impl<'a> Biases<'a> {
    pub(crate) fn new(
        options: &Attention,
        values: Option<&'a [f32]>,
        heads: usize,
        longest: usize,
    ) -> Result<Option<Self>> {
        let (Some(buckets), Some(values)) = (options.buckets, values) else { return Ok(None) };
        let by_distance = |later: bool| {
            let mut rows = Vec::new();
            rows.try_reserve_exact(longest).map_err(|_| Error::memory(longest))?;
            let Buckets { count, distance: far, .. } = buckets;
            let bucket = |distance| bucket_of(count, far, distance, later, options.causal);
            rows.extend((0..longest as u64).map(|distance| bucket(distance) as usize));
            Ok::<_, Error>(rows)
        };
        Ok(Some(Self { values, heads, earlier: by_distance(false)?, later: by_distance(true)? }))
    }

    /// Returns the bias of the score of a query at `token` with a key at `other`.
    pub(crate) fn of(&self, head: usize, token: usize, other: usize) -> f32 {
        let rows = if other > token { &self.later } else { &self.earlier };
        self.values[rows[token.abs_diff(other)] * self.heads + head]
    }
}

/// Returns the number of tokens per picked run.
pub(crate) fn run_length(options: TokenSelection) -> usize {
    usize::try_from(options.block.max(1)).unwrap_or(usize::MAX)
}

/// The operands of an indexer: queries and keys of all texts, and a weight per query head if the scores
/// of the heads are summed.
pub(crate) struct Indexer<'a> {
    pub(crate) queries: (&'a [f32], Extent),
    pub(crate) keys: (&'a [f32], Extent),
    pub(crate) weights: Option<&'a [f32]>,
}

/// Returns the indices of the highest-scoring runs of tokens for each token, up to its own run, in
/// ascending order.
pub(crate) fn pick(
    isa: Isa,
    options: TokenSelection,
    operands: &Indexer<'_>,
    texts: &[Range<usize>],
) -> Result<Vec<u32>> {
    let heads = operands.queries.1.parts.unwrap_or(1) as usize;
    let results = if options.weighted { 1 } else { heads };
    let longest = texts.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let total: usize = texts.iter().map(ExactSizeIterator::len).sum();
    let runs = longest.div_ceil(run_length(options)) as u64;
    // The incomplete run that contains the token is always picked in addition.
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
            out.chunks_mut((QUERIES_PER_TASK * width).max(1)).enumerate().collect();
        tasks.into_par_iter().try_for_each(|(number, out)| {
            let work = PickTask { isa, options, operands, keys: &keys, heads, results, count };
            work.queries(text, number * QUERIES_PER_TASK, out)
        })?;
    }
    Ok(places)
}

/// Picks runs of a text.
struct PickTask<'a> {
    isa: Isa,
    options: TokenSelection,
    operands: &'a Indexer<'a>,
    keys: &'a Panels,
    heads: usize,
    /// The number of heads that pick: 1 if scores are summed over heads.
    results: usize,
    /// The number of runs that each of them picks.
    count: usize,
}

impl PickTask<'_> {
    /// Picks runs for the tokens of a text from `first` on.
    fn queries(&self, text: &Range<usize>, first: usize, out: &mut [u32]) -> Result<()> {
        let width = self.results * self.count;
        let tokens = out.len() / width.max(1);
        let seen = self.keys_for(first + tokens);
        let mut scores = try_zeros(tokens * seen)?;
        let mut sums = try_zeros(tokens * seen)?;
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

    /// Returns the number of keys for `tokens` tokens: one per complete run, or one per token.
    fn keys_for(&self, tokens: usize) -> usize {
        if self.options.whole { tokens / run_length(self.options) } else { tokens }
    }

    /// Writes the indices of the highest-scoring runs in ascending order. The score of a run is the score
    /// of its best token. Ties prefer the first run, and NaN comes last. If only complete runs have keys,
    /// the incomplete run that contains the token is added.
    fn choose(&self, scores: &[f32], token: usize, out: &mut [u32]) {
        let TokenSelection { whole, .. } = self.options;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first distance of each bucket, from `llama_relative_position_bucket` of libllama
    /// (llama-cpp-python 0.3.36, called with ctypes) for distances below 300.
    #[test]
    fn distances_are_in_the_buckets_of_the_reference() {
        const HALF: [(u64, u64); 16] = [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 4),
            (5, 5),
            (6, 6),
            (7, 7),
            (8, 8),
            (12, 9),
            (16, 10),
            (23, 11),
            (32, 12),
            (46, 13),
            (64, 14),
            (91, 15),
        ];
        const CAUSAL: [(u64, u64); 17] = [
            (15, 15),
            (16, 16),
            (19, 17),
            (21, 18),
            (24, 19),
            (27, 20),
            (31, 21),
            (35, 22),
            (40, 23),
            (46, 24),
            (52, 25),
            (59, 26),
            (67, 27),
            (77, 28),
            (87, 29),
            (99, 30),
            (113, 31),
        ];
        const SEVEN: [(u64, u64); 7] = [(0, 0), (1, 1), (2, 2), (3, 3), (8, 4), (20, 5), (51, 6)];
        type Starts = [(u64, u64)];
        let cases: [(u64, bool, &Starts); 4] = [
            (32, false, &HALF),
            (32, true, &CAUSAL),
            (8, false, &[(0, 0), (1, 1), (2, 2), (16, 3)]),
            (7, true, &SEVEN),
        ];
        for (count, causal, starts) in cases {
            for (place, &(start, expected)) in starts.iter().enumerate() {
                let end = starts.get(place + 1).map_or(300, |next| next.0);
                for distance in start..end {
                    assert_eq!(
                        bucket_of(count, 128, distance, false, causal),
                        expected,
                        "{distance}"
                    );
                    if !causal {
                        let later = bucket_of(count, 128, distance, true, causal);
                        assert_eq!(later, expected + count / 2, "{distance}");
                    }
                }
            }
        }
    }
}

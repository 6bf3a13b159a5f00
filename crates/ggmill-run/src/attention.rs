//! Attention of queries to keys and values.

use core::ops::Range;

use ggmill_arch::graph::{Attention, Extent};
use ggmill_quant::{Isa, Panels, Rows, functions};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use crate::biases::Biases;
use crate::error::{Result, room};

/// Queries of one task. Their scores with the keys that they attend to are there at once.
pub(crate) const QUERIES: usize = crate::sizes::HIGH;

/// Queries, keys and values of all texts, and what each has for a token.
pub(crate) struct Operands<'a> {
    pub(crate) queries: (&'a [f32], Extent),
    pub(crate) keys: (&'a [f32], Extent),
    pub(crate) values: (&'a [f32], Extent),
    /// Keys and values that the first tokens of runs have, as many as tokens.
    pub(crate) runs: Option<[&'a [f32]; 2]>,
}

/// What scores have beside them, for each head.
pub(crate) struct Extra<'a> {
    /// A score that belongs to no token.
    pub(crate) sinks: Option<&'a [f32]>,
    /// Numbers by distance, a row for each bucket.
    pub(crate) buckets: Option<&'a [f32]>,
    /// The tokens that each token is restricted to.
    pub(crate) picks: Option<Picks<'a>>,
}

/// What was picked for all tokens.
#[derive(Clone, Copy)]
pub(crate) struct Picks<'a> {
    /// Runs of tokens, in order, as many for each head of each token.
    pub(crate) places: &'a [u32],
    /// How many heads picked.
    pub(crate) heads: usize,
    /// The tokens of a run.
    pub(crate) of_run: usize,
}

impl<'a> Picks<'a> {
    /// The place where fewer are picked.
    pub(crate) const NONE: u32 = u32::MAX;

    /// What a head picked for a token, where there are so many tokens.
    pub(crate) fn of(&self, token: usize, head: usize, tokens: usize) -> &'a [u32] {
        let count = self.places.len() / (tokens * self.heads).max(1);
        &self.places[(token * self.heads + head) * count..][..count]
    }
}

/// Some queries of a text: the text, the first of them, and the room for their results.
struct Task<'a> {
    text: usize,
    first: usize,
    out: &'a mut [f32],
}

/// Writes the results of all heads for the tokens of all texts. Each text is there with the one that
/// its tokens attend to: itself, or its source.
pub(crate) fn attention(
    isa: Isa,
    options: &Attention,
    operands: &Operands<'_>,
    extra: &Extra<'_>,
    texts: &[(Range<usize>, Range<usize>)],
    out: &mut [f32],
) -> Result<()> {
    let heads = operands.queries.1.parts.unwrap_or(1) as usize;
    let kv_heads = operands.keys.1.parts.unwrap_or(1) as usize;
    let arranged: Vec<(Range<usize>, usize)> = texts
        .iter()
        .flat_map(|(_, to)| (0..kv_heads).map(move |head| (to.clone(), head)))
        .collect();
    let (k, v) = (operands.keys.1, operands.values.1);
    let run = usize::try_from(options.run).unwrap_or(usize::MAX);
    let arrange = |(text, head): (Range<usize>, usize)| {
        let of = |[keys, values]: [&[f32]; 2], step: usize| {
            let (mut arranged_keys, mut arranged_values) = (Panels::default(), Panels::default());
            arranged_keys.pack_rows(&rows_of((keys, k), &text, step, head)?)?;
            arranged_values.pack_transposed(&rows_of((values, v), &text, step, head)?)?;
            Ok::<_, crate::Error>((arranged_keys, arranged_values))
        };
        let runs = operands.runs.map(|runs| of(runs, run)).transpose()?;
        Ok::<_, crate::Error>((of([operands.keys.0, operands.values.0], 1)?, runs))
    };
    let arranged: Vec<Arranged> = arranged.into_par_iter().map(arrange).collect::<Result<_>>()?;
    let width = heads * operands.values.1.length as usize;
    let mut tasks = Vec::new();
    let mut rest = out;
    for (text, (range, _)) in texts.iter().enumerate() {
        let (out, others) = rest.split_at_mut(range.len() * width);
        rest = others;
        for (number, out) in out.chunks_mut((QUERIES * width).max(1)).enumerate() {
            tasks.push(Task { text, first: number * QUERIES, out });
        }
    }
    // The later ones of a text take longer.
    tasks.reverse();
    let longest = texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
    let biases = Biases::new(options, extra.buckets, heads, longest)?;
    let total: usize = texts.iter().map(|(text, _)| text.len()).sum();
    let slopes: Vec<f32> = (0..heads).map(|head| slope(options.alibi, heads, head)).collect();
    tasks.into_par_iter().try_for_each_init(Vec::new, |scores, task| {
        let (range, to) = &texts[task.text];
        for head in 0..heads {
            let arranged = &arranged[task.text * kv_heads + head / (heads / kv_heads)];
            let sink = extra.sinks.map(|sinks| sinks[head]);
            let (slope, biases) = (slopes[head], biases.as_ref());
            let picks = extra.picks.map(|picks| (picks, head * picks.heads / heads, total));
            let tokens = to.len();
            let work =
                Head { isa, options, number: head, slope, biases, sink, picks, arranged, tokens };
            work.queries(operands.queries, range, task.first, width, task.out, scores)?;
        }
        Ok(())
    })
}

/// How much less a head attends to a token for each token between, with ALiBi.
fn slope(most: f32, heads: usize, head: usize) -> f32 {
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

/// The numbers of a head for some tokens, of which each `step`-th counts.
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

/// Keys and values of a head over a text, and those of its runs where there are some.
type Arranged = ((Panels, Panels), Option<(Panels, Panels)>);

/// A head over a text.
struct Head<'a> {
    isa: Isa,
    options: &'a Attention,
    number: usize,
    slope: f32,
    biases: Option<&'a Biases<'a>>,
    sink: Option<f32>,
    /// What it is restricted to, by which of the heads that pick, and how many tokens all texts have.
    picks: Option<(Picks<'a>, usize, usize)>,
    /// Keys and values, of so many tokens.
    arranged: &'a Arranged,
    tokens: usize,
}

/// The tokens or runs that a token attends to, where they are not all, and their scores: the same
/// memory for one token after the other.
#[derive(Default)]
struct Taken {
    places: Vec<usize>,
    scores: Vec<f32>,
}

impl Taken {
    fn clear(&mut self) {
        self.places.clear();
        self.scores.clear();
    }
}

impl Head<'_> {
    /// Writes the results of some queries, from `first` on: `width` numbers for each in `out`, of
    /// which those of this head.
    fn queries(
        &self,
        queries: (&[f32], Extent),
        text: &Range<usize>,
        first: usize,
        width: usize,
        out: &mut [f32],
        scores: &mut Vec<f32>,
    ) -> Result<()> {
        let ((keys, values), runs) = self.arranged;
        let count = out.len() / width;
        let tokens = text.start + first..text.start + first + count;
        // The keys that any of these queries attends to.
        let start = self.visible(first).start / Panels::WIDTH * Panels::WIDTH;
        let end = self.visible(first + count - 1).end;
        let seen = end - start;
        // Before their scores those of the runs.
        let of_runs = runs.as_ref().map_or(0, |_| self.runs_before(first + count));
        let width_of_row = of_runs + seen;
        if scores.len() < count * width_of_row {
            *scores = room(count * width_of_row)?;
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
        let mut chosen = Taken::default();
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
                    self.weigh_with_runs(first + query, picked, [row_of_runs, row], &mut chosen);
                }
                None => self.weigh(first + query, visible.start, row),
                Some((picks, picked)) => {
                    self.weigh_some(first + query, picked, picks.of_run, row, &mut chosen);
                }
            }
        }
        let length = values.rows();
        let left = Rows::new(&scores[of_runs..], count, width_of_row, seen)?;
        let out = &mut out[self.number * length..];
        values.multiply_part(self.isa, 0..length, start..end, &left, out, width)?;
        if let Some((_, values)) = runs.as_ref().filter(|_| of_runs > 0) {
            let left = Rows::new(scores, count, width_of_row, of_runs)?;
            let mut more = room(count * length)?;
            values.multiply_part(self.isa, 0..length, 0..of_runs, &left, &mut more, length)?;
            for (out, more) in out.chunks_mut(width).zip(more.chunks_exact(length)) {
                out.iter_mut().zip(more).for_each(|(out, more)| *out += more);
            }
        }
        Ok(())
    }

    /// How many whole runs there are in so many tokens.
    fn runs_before(&self, tokens: usize) -> usize {
        tokens / usize::try_from(self.options.run.max(1)).unwrap_or(usize::MAX)
    }

    /// Turns the scores of a token with whole runs, of which some may be picked, and with tokens into
    /// their shares.
    fn weigh_with_runs(
        &self,
        token: usize,
        picked: Option<&[u32]>,
        [of_runs, row]: [&mut [f32]; 2],
        chosen: &mut Taken,
    ) {
        let whole = self.runs_before(token + 1);
        chosen.clear();
        match picked {
            Some(picked) => {
                let runs = picked.iter().map(|&run| run as usize);
                chosen.places.extend(runs.filter(|&run| run < whole));
            }
            None => chosen.places.extend(0..whole),
        }
        chosen.scores.extend(chosen.places.iter().map(|&run| of_runs[run]));
        chosen.scores.extend_from_slice(row);
        self.adjust(token, 0.., &mut chosen.scores);
        let (shares_of_runs, shares) = chosen.scores.split_at(chosen.places.len());
        of_runs.fill(0.0);
        for (&run, share) in chosen.places.iter().zip(shares_of_runs) {
            of_runs[run] = *share;
        }
        row.copy_from_slice(shares);
    }

    /// The tokens that a token attends to.
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

    /// The same for the picked ones alone, in order; all others have no share. Nothing is masked but
    /// later tokens, so a row begins with the first token of the text.
    fn weigh_some(
        &self,
        token: usize,
        picked: &[u32],
        of_run: usize,
        row: &mut [f32],
        chosen: &mut Taken,
    ) {
        let runs = picked.iter().take_while(|&&place| place != Picks::NONE);
        let places = runs.flat_map(|&run| {
            let start = run as usize * of_run;
            start..(start + of_run).min(row.len())
        });
        chosen.clear();
        chosen.places.extend(places);
        chosen.scores.extend(chosen.places.iter().map(|&place| row[place]));
        self.adjust(token, chosen.places.iter().copied(), &mut chosen.scores);
        row.fill(0.0);
        for (&place, share) in chosen.places.iter().zip(&chosen.scores) {
            row[place] = *share;
        }
    }

    /// Turns the scores of a token with those from `start` on into their shares in its result.
    fn weigh(&self, token: usize, start: usize, row: &mut [f32]) {
        self.adjust(token, start.., row);
    }

    /// The same for the scores of these places.
    fn adjust(&self, token: usize, places: impl Iterator<Item = usize>, row: &mut [f32]) {
        let options = self.options;
        if row.is_empty() {
            return;
        }
        if options.softcap == 0.0 && self.slope == 0.0 && self.biases.is_none() {
            functions::softmax(self.isa, row, options.scale, self.sink);
            return;
        }
        for (score, other) in row.iter_mut().zip(places) {
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

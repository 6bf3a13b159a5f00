//! Attention of queries to keys and values.

use core::ops::Range;

use ggmill_arch::graph::{Attention, Extent};
use ggmill_quant::{Panels, Tiles};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use crate::error::{Result, room};

/// Queries, keys and values of all texts, and what each has for a token.
pub(crate) struct Operands<'a> {
    pub(crate) queries: (&'a [f32], Extent),
    pub(crate) keys: (&'a [f32], Extent),
    pub(crate) values: (&'a [f32], Extent),
}

/// The results of all heads for the tokens of all texts, which attend to their own text alone.
pub(crate) fn attention(
    options: &Attention,
    operands: &Operands<'_>,
    sinks: Option<&[f32]>,
    texts: &[Range<usize>],
) -> Result<Vec<f32>> {
    let heads = operands.queries.1.parts.unwrap_or(1) as usize;
    let kv_heads = operands.keys.1.parts.unwrap_or(1) as usize;
    let length = operands.values.1.length as usize;
    let tokens = texts.last().map_or(0, |text| text.end);
    let work: Vec<(&Range<usize>, usize)> =
        texts.iter().flat_map(|text| (0..heads).map(move |head| (text, head))).collect();
    let width = heads * length;
    let mut out = room(tokens * width)?;
    // A few at a time, so that their results are not all there twice.
    for some in work.chunks(rayon::current_num_threads().max(1) * 2) {
        let results: Vec<Vec<f32>> = some
            .par_iter()
            .map(|&(text, head)| {
                let slope = slope(options.alibi, heads, head);
                let sink = sinks.map(|sinks| sinks[head]);
                let kv_head = head / (heads / kv_heads);
                one_head(options, operands, text, [head, kv_head], slope, sink)
            })
            .collect::<Result<_>>()?;
        for (&(text, head), result) in some.iter().zip(&results) {
            for (token, values) in text.clone().zip(result.chunks_exact(length)) {
                out[token * width + head * length..][..length].copy_from_slice(values);
            }
        }
    }
    Ok(out)
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

/// The numbers of a head for some tokens, one after the other.
fn gather(
    (values, extent): (&[f32], Extent),
    text: &Range<usize>,
    head: usize,
) -> Result<Vec<f32>> {
    let (width, length) = (extent.elements() as usize, extent.length as usize);
    let mut out = room(text.len() * length)?;
    for (out, token) in out.chunks_exact_mut(length).zip(text.clone()) {
        out.copy_from_slice(&values[token * width + head * length..][..length]);
    }
    Ok(out)
}

fn one_head(
    options: &Attention,
    operands: &Operands<'_>,
    text: &Range<usize>,
    [head, kv_head]: [usize; 2],
    slope: f32,
    sink: Option<f32>,
) -> Result<Vec<f32>> {
    let tokens = text.len();
    let (mut tiles, mut panels) = (Tiles::default(), Panels::default());
    tiles.pack(&gather(operands.queries, text, head)?, operands.queries.1.length as usize)?;
    panels.pack(&gather(operands.keys, text, kv_head)?, operands.keys.1.length as usize)?;
    let mut scores = room(tokens * tokens)?;
    panels.multiply(&tiles, 0..tokens, &mut scores, tokens)?;
    for (token, row) in scores.chunks_exact_mut(tokens.max(1)).enumerate() {
        weigh(options, token, row, slope, sink);
    }
    let length = operands.values.1.length as usize;
    tiles.pack(&scores, tokens)?;
    panels.pack_transposed(&gather(operands.values, text, kv_head)?, length)?;
    let mut out = room(tokens * length)?;
    panels.multiply(&tiles, 0..tokens, &mut out, length)?;
    Ok(out)
}

/// Turns the scores of a token into the shares that others have in its result.
fn weigh(options: &Attention, token: usize, row: &mut [f32], slope: f32, sink: Option<f32>) {
    let window = options.window as usize;
    let end = if options.causal { token + 1 } else { row.len() };
    let start = if window > 0 { (token + 1).saturating_sub(window) } else { 0 };
    let mut most = sink.unwrap_or(f32::NEG_INFINITY);
    for (other, score) in row.iter_mut().enumerate().take(end).skip(start) {
        *score *= options.scale;
        if options.softcap != 0.0 {
            *score = options.softcap * libm::tanhf(*score / options.softcap);
        }
        if slope != 0.0 {
            *score -= slope * token.abs_diff(other) as f32;
        }
        most = most.max(*score);
    }
    let mut sum = sink.map_or(0.0, |sink| f64::from(libm::expf(sink - most)));
    row[..start].fill(0.0);
    row[end..].fill(0.0);
    for score in &mut row[start..end] {
        *score = libm::expf(*score - most);
        sum += f64::from(*score);
    }
    let scale = (1.0 / sum) as f32;
    row[start..end].iter_mut().for_each(|share| *share *= scale);
}

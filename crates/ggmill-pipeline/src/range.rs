//! A part of a run: exactly these bytes of the file, so that several engines can share one plan.

use std::ops::Range;

use ggmill_core::{PlannedTensor, Sink};
use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};

use crate::error::{Error, ErrorKind, Result};
use crate::expression::{Evaluator, Expression};
use crate::plan::Plan;
use crate::run::{Report, RunOptions, chunks, make, report};
use crate::source::Checkpoint;

/// Appends bytes `range` of the file to a sink: what [`run`](crate::run) would write there,
/// whatever the range cuts. Ranges that together are the file, made by whatever programs in
/// whatever order, are the bytes of the file; a range can be made again.
///
/// Nothing is remembered from one call to the next: a reduction takes its pass in each. Fails for a
/// range that leaves the file, and otherwise as `run` does.
pub fn run_range<S>(
    plan: &Plan,
    source: &dyn Checkpoint,
    range: Range<u64>,
    mut sink: S,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<S>
where
    S: Sink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    if range.start > range.end || range.end > plan.layout.total_len() {
        let message = format!(
            "bytes {} to {} of a file of {}",
            range.start,
            range.end,
            plan.layout.total_len()
        );
        return Err(Error::new(ErrorKind::Misuse, message));
    }
    source.verify()?;
    plan.check(source)?;
    let pool = options.pool()?;
    let window = 2 * pool.current_num_threads();
    let evaluator = Evaluator::new(source, 2 * window);
    let total = range.end - range.start;
    let mut at = range.start;
    let mut put = |sink: &mut S, at: &mut u64, bytes: &[u8], tensor: Option<&PlannedTensor>| {
        sink.append(bytes).map_err(|error| Error::caused(ErrorKind::Io, error))?;
        *at += bytes.len() as u64;
        tensor.map_or(Ok(()), |tensor| report(progress, tensor, *at - range.start, total))
    };
    let header = plan.layout.header();
    let part = |bound: u64| usize::try_from(bound).unwrap_or(usize::MAX).min(header.len());
    put(&mut sink, &mut at, &header[part(range.start)..part(range.end)], None)?;
    for (tensor, expression) in plan.layout.tensors().iter().zip(&plan.expressions) {
        let (start, end) = (tensor.offset(), tensor.offset() + tensor.size());
        if end <= at || start >= range.end {
            continue;
        }
        zeros(start, &mut at, &mut |at, bytes| put(&mut sink, at, bytes, None))?;
        let pieces = pieces(expression, at - start, end.min(range.end) - start);
        for window in pieces.chunks(window) {
            let mut made = Vec::with_capacity(window.len());
            pool.install(|| {
                window
                    .par_iter()
                    .map(|piece| make(expression, piece.elements.clone(), &evaluator, plan.endian))
                    .collect_into_vec(&mut made);
            });
            for (piece, bytes) in window.iter().zip(made) {
                let bytes = bytes.map_err(|error| error.tensor(tensor.name().as_bytes()))?;
                put(&mut sink, &mut at, &bytes[piece.wanted.clone()], Some(tensor))?;
                evaluator.buffers.give(bytes);
            }
        }
    }
    zeros(range.end, &mut at, &mut |at, bytes| put(&mut sink, at, bytes, None))?;
    source.verify()?;
    Ok(sink)
}

/// Padding up to here.
fn zeros(
    until: u64,
    at: &mut u64,
    put: &mut dyn FnMut(&mut u64, &[u8]) -> Result<()>,
) -> Result<()> {
    while *at < until {
        let some = [0; 4096];
        let len = usize::try_from(until - *at).unwrap_or(usize::MAX).min(some.len());
        put(at, &some[..len])?;
    }
    Ok(())
}

/// Elements to make, and which of their bytes are wanted.
struct Piece {
    elements: Range<u64>,
    wanted: Range<usize>,
}

/// The blocks that cover bytes `start..end` of a tensor, chunk by chunk.
fn pieces(expression: &Expression, start: u64, end: u64) -> Vec<Piece> {
    let Some(layout) = expression.ggml_type().layout() else { return Vec::new() };
    let (elements, bytes) = (u64::from(layout.elements), u64::from(layout.bytes));
    let piece = |chunk: Range<u64>| {
        let (first, last) = (chunk.start / elements * bytes, chunk.end / elements * bytes);
        let (start, end) = (start.max(first), end.min(last));
        if start >= end {
            return None;
        }
        let blocks = start / bytes..end.div_ceil(bytes);
        let wanted = start - blocks.start * bytes..end - blocks.start * bytes;
        let wanted = usize::try_from(wanted.start).ok()?..usize::try_from(wanted.end).ok()?;
        Some(Piece { elements: blocks.start * elements..blocks.end * elements, wanted })
    };
    chunks(expression).into_iter().filter_map(piece).collect()
}

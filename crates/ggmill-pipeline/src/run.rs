//! Running a plan: reads, converts and writes chunk by chunk, in bounded memory.

use std::ops::{ControlFlow, Range};

use ggmill_core::{Endian, PlannedTensor, Sink, WriteError, Writer};
use ggmill_io::{RandomAccess, RangeSink};
use ggmill_quant as quant;
use rayon::ThreadPool;
use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};

use crate::buffers::BufferPool;
use crate::error::{Error, ErrorKind, Result};
use crate::expression::{CHUNK, Evaluator, Expression, SourceRange, read_by};
use crate::recipe::Plan;
use crate::source::{Checkpoint, FileRange};

/// Options of a run. The content of the output does not depend on them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// The number of threads that compute chunks. `None` means the size of the caller's rayon pool,
    /// by default the number of logical CPUs. Each thread uses memory for a few chunks.
    pub threads: Option<usize>,
    /// If true, a tensor whose values all become zero is written and reported, not refused.
    pub allow_zeros: bool,
}

impl RunOptions {
    /// Runs on `threads` threads.
    pub fn with_threads(threads: usize) -> Self {
        Self { threads: Some(threads), ..Self::default() }
    }

    /// Runs `work` in a thread pool with the configured number of threads.
    ///
    /// ```
    /// use ggmill_pipeline::RunOptions;
    /// assert_eq!(RunOptions::with_threads(2).install(|| 6 * 7)?, 42);
    /// # Ok::<(), ggmill_pipeline::Error>(())
    /// ```
    ///
    /// Fails if the threads cannot be started.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R> {
        Ok(self.pool()?.install(work))
    }

    /// Starts a thread pool. Fails if the threads cannot be started.
    ///
    /// ```
    /// use ggmill_pipeline::RunOptions;
    /// let workers = RunOptions::with_threads(2).workers()?;
    /// assert_eq!(workers.map(&[1, 2, 3], |number| number * 2), [2, 4, 6]);
    /// # Ok::<(), ggmill_pipeline::Error>(())
    /// ```
    pub fn workers(&self) -> Result<Workers> {
        self.pool().map(Workers)
    }

    fn pool(&self) -> Result<ThreadPool> {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads.unwrap_or_else(rayon::current_num_threads));
        threads.build().map_err(|error| Error::caused(ErrorKind::Io, error))
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The tensor being written.
    pub tensor: &'a str,
    /// Bytes of tensor data written so far.
    pub written: u64,
    /// Bytes of tensor data in all.
    pub total: u64,
}

impl<'a> Progress<'a> {
    /// Creates a report: `written` of `total` bytes, the last ones of this tensor.
    pub fn new(tensor: &'a str, written: u64, total: u64) -> Self {
        Self { tensor, written, total }
    }
}

/// A callback for the progress of a run, called from any thread. [`ControlFlow::Break`] cancels the
/// run.
pub type Report<'r> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + Send + 'r;

/// Writes the file of a plan to a sink, and returns the sink.
///
/// Unchanged tensors are copied from file to file by the sink, if it supports that. Everything else
/// goes through memory, bounded by a few chunks per thread regardless of the size of the model.
/// Chunks are computed in parallel and written in order, so the output does not depend on the
/// number of threads. Fails if another program writes to a source during the run. `progress` is
/// called after each chunk and can cancel the run with [`ControlFlow::Break`]; this drops the sink,
/// and a [`FileSink`](ggmill_io::FileSink) then leaves nothing behind.
pub fn run<S>(
    plan: &Plan,
    source: &dyn Checkpoint,
    sink: S,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<S>
where
    S: RangeSink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    let pool = options.pool()?;
    let window = 2 * pool.current_num_threads();
    let tensors = plan.layout.tensors();
    let mut writer = Writer::start(&plan.layout, sink).map_err(write_error)?;
    let mut meter =
        Meter { progress, written: 0, total: tensors.iter().map(PlannedTensor::size).sum() };
    let mut number = 0;
    // An interrupted edit of the source must fail now, not after hours of work.
    source.verify()?;
    plan.check(source)?;
    plan.expressions.iter().for_each(Expression::forget_errors);
    source.prefetch(&read_by(&plan.expressions));
    let mut copies_ranges = true;
    let mut computed = Window::default();
    // One window is computed while another is written.
    let evaluator = Evaluator::new(source, 2 * window);
    let buffers = &evaluator.buffers;
    while let Some(expression) = plan.expressions.get(number) {
        if copies_ranges && let Some(spans) = CopySpan::starting_at(plan, source, number) {
            std::mem::take(&mut computed).write(&mut writer, tensors, buffers, &mut meter)?;
            let end = spans.last().map_or(number, |span| span.end);
            copies_ranges =
                copy_spans(&mut writer, number, &spans, &tensors[number..end], &mut meter)?;
            if copies_ranges {
                number = end;
                continue;
            }
        }
        for window in chunks(expression).chunks(window) {
            let mut next = Window { number, chunks: Vec::with_capacity(window.len()) };
            // This thread writes the previous window while the pool computes the next.
            pool.in_place_scope(|scope| {
                let (chunks, evaluator) = (&mut next.chunks, &evaluator);
                let compute_chunk = move |chunk: &Range<u64>| {
                    compute(expression, chunk.clone(), evaluator, plan.endian)
                };
                scope.spawn(move |_| window.par_iter().map(compute_chunk).collect_into_vec(chunks));
                std::mem::take(&mut computed).write(&mut writer, tensors, buffers, &mut meter)
            })?;
            computed = next;
        }
        number += 1;
    }
    computed.write(&mut writer, tensors, buffers, &mut meter)?;
    // If the source changed during the run, the output may mix old and new content.
    source.verify()?;
    if !options.allow_zeros {
        plan.refuse_zeros()?;
    }
    writer.finish().map_err(write_error)
}

/// Computed chunks of one tensor, or their errors, to be written in order.
#[derive(Default)]
struct Window {
    number: usize,
    chunks: Vec<Result<Vec<u8>>>,
}

impl Window {
    fn write<S>(
        self,
        writer: &mut Writer<'_, S>,
        tensors: &[PlannedTensor],
        buffers: &BufferPool,
        meter: &mut Meter<'_>,
    ) -> Result<()>
    where
        S: RangeSink,
        S::Error: std::error::Error + Send + Sync + 'static,
    {
        let Some(tensor) = tensors.get(self.number) else { return Ok(()) };
        for bytes in self.chunks {
            let bytes = bytes.map_err(|error| error.tensor(tensor.name().as_bytes()))?;
            writer.write(self.number, &bytes).map_err(write_error)?;
            meter.add(tensor, bytes.len() as u64)?;
            buffers.put_back(bytes);
        }
        Ok(())
    }
}

/// Lets the sink copy spans directly. Returns `false` if it cannot.
fn copy_spans<S>(
    writer: &mut Writer<'_, S>,
    number: usize,
    spans: &[CopySpan<'_>],
    tensors: &[PlannedTensor],
    meter: &mut Meter<'_>,
) -> Result<bool>
where
    S: RangeSink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    let mut has_copied = false;
    for (span, (offset, len)) in
        spans.iter().flat_map(|span| span.pieces().map(move |piece| (span, piece)))
    {
        if !writer
            .write_with(number, len, |sink| sink.append_range(span.file, offset, len))
            .map_err(write_error)?
        {
            if !has_copied {
                return Ok(false);
            }
            // It has copied an earlier part of the tensor, so this part must follow.
            span.read(offset, len, &mut |bytes| writer.write(number, bytes).map_err(write_error))?;
        }
        has_copied = true;
        if let [tensor] = tensors {
            meter.add(tensor, len)?;
        }
    }
    if let [_, .., last] = tensors {
        meter.add(last, tensors.iter().map(PlannedTensor::size).sum())?;
    }
    Ok(true)
}

/// Counts written bytes and reports the progress.
struct Meter<'a> {
    progress: &'a mut Report<'a>,
    written: u64,
    total: u64,
}

impl Meter<'_> {
    fn add(&mut self, tensor: &PlannedTensor, len: u64) -> Result<()> {
        self.written += len;
        report(self.progress, tensor, self.written, self.total)
    }
}

/// Reports the progress, and fails if the callback cancels.
fn report(
    progress: &mut Report<'_>,
    tensor: &PlannedTensor,
    written: u64,
    total: u64,
) -> Result<()> {
    match progress(Progress { tensor: &tensor.name().to_string_lossy(), written, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
    }
}

fn write_error<E: std::error::Error + Send + Sync + 'static>(error: WriteError<E>) -> Error {
    match error {
        WriteError::Plan(error) => Error::caused(ErrorKind::Misuse, error),
        WriteError::Sink(error) => Error::caused(ErrorKind::Io, error),
    }
}

/// Splits a tensor into ranges of elements; whole rows for a quantized type.
fn chunks(this: &Expression) -> Vec<Range<u64>> {
    let elements = this.shape().elements();
    let row_len = this.shape().row_len().max(1);
    let step = if this.ggml_type().is_quantized() {
        (CHUNK / row_len).max(1).saturating_mul(row_len)
    } else {
        CHUNK
    };
    let starts = (0..elements).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    starts.map(|start| start..elements.min(start.saturating_add(step))).collect()
}

/// Computes the bytes of one chunk in the byte order of the output.
fn compute(
    this: &Expression,
    chunk: Range<u64>,
    evaluator: &Evaluator<'_>,
    endian: Endian,
) -> Result<Vec<u8>> {
    let mut bytes = evaluator.bytes(this, chunk.start, chunk.end)?;
    if endian == Endian::Big {
        quant::swap_bytes(this.ggml_type(), &mut bytes)
            .map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
    }
    Ok(bytes)
}

/// A thread pool for hashing, comparing and measuring, with [`RunOptions::threads`] threads.
#[derive(Debug)]
pub struct Workers(ThreadPool);

impl Workers {
    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Applies `work` to each item in parallel, and returns the results in the order of the items.
    pub fn map<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + Send + Sync,
    ) -> Vec<R> {
        self.0.install(|| items.par_iter().map(work).collect())
    }
}

/// Writes bytes `range` of the file to a sink: exactly the bytes that [`run`](crate::run) would
/// write there. Several processes can each produce a range, in any order, and together produce the
/// file.
///
/// Nothing is cached between calls, so each call repeats the pass of a reduction. Fails for a range
/// outside the file, and like `run`, except that values that are not finite are not counted.
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
        pad(start, &mut at, &mut |at, bytes| put(&mut sink, at, bytes, None))?;
        let pieces = covering_blocks(expression, at - start, end.min(range.end) - start);
        for window in pieces.chunks(window) {
            let mut computed = Vec::with_capacity(window.len());
            pool.install(|| {
                window
                    .par_iter()
                    .map(|piece| {
                        compute(expression, piece.elements.clone(), &evaluator, plan.endian)
                    })
                    .collect_into_vec(&mut computed);
            });
            for (piece, bytes) in window.iter().zip(computed) {
                let bytes = bytes.map_err(|error| error.tensor(tensor.name().as_bytes()))?;
                put(&mut sink, &mut at, &bytes[piece.wanted.clone()], Some(tensor))?;
                evaluator.buffers.put_back(bytes);
            }
        }
        if !options.allow_zeros {
            // The range can be a part of the tensor: the others are computed until one keeps a value.
            for chunk in chunks(expression) {
                if !expression.is_lost() {
                    break;
                }
                compute(expression, chunk, &evaluator, plan.endian)
                    .map_err(|error| error.tensor(tensor.name().as_bytes()))?;
            }
            expression.refuse_zeros().map_err(|error| error.tensor(tensor.name().as_bytes()))?;
        }
    }
    pad(range.end, &mut at, &mut |at, bytes| put(&mut sink, at, bytes, None))?;
    source.verify()?;
    Ok(sink)
}

/// Writes zeros up to offset `until`.
fn pad(until: u64, at: &mut u64, put: &mut dyn FnMut(&mut u64, &[u8]) -> Result<()>) -> Result<()> {
    while *at < until {
        let zeros = [0; 4096];
        let len = usize::try_from(until - *at).unwrap_or(usize::MAX).min(zeros.len());
        put(at, &zeros[..len])?;
    }
    Ok(())
}

/// Whole blocks to compute, and the range of their bytes to write.
struct BlockRange {
    elements: Range<u64>,
    wanted: Range<usize>,
}

/// Returns the blocks that cover bytes `start..end` of a tensor, chunk by chunk.
fn covering_blocks(expression: &Expression, start: u64, end: u64) -> Vec<BlockRange> {
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
        Some(BlockRange { elements: blocks.start * elements..blocks.end * elements, wanted })
    };
    chunks(expression).into_iter().filter_map(piece).collect()
}

/// Bytes copied in one call: small enough to show progress, large enough that the overhead does not
/// matter.
const PIECE: u64 = 64 << 20;

/// The maximum padding between tensors that are copied together. Each byte of it must be zero.
const MAX_PADDING: usize = 4096;

/// Consecutive tensors that are unchanged and consecutive in a source file too, with equal padding,
/// so that they can be copied as one range.
#[derive(Debug)]
struct CopySpan<'a> {
    file: &'a RandomAccess,
    /// The offset of the first tensor in that file.
    offset: u64,
    /// Bytes up to the end of the last tensor, including the padding in between.
    len: u64,
    /// The number of the tensor after the last.
    end: usize,
}

impl<'a> CopySpan<'a> {
    /// Returns the spans that begin with this tensor: one that may include later tensors, or
    /// several if the tensor is composed of several source ranges. `None` if the data must be
    /// computed.
    fn starting_at(plan: &Plan, source: &'a dyn Checkpoint, number: usize) -> Option<Vec<Self>> {
        let planned = plan.layout.tensors();
        let first = planned.get(number).filter(|tensor| tensor.size() > 0)?;
        let mut spans = ranges_of(plan, source, number)?;
        let [span] = &mut spans[..] else { return Some(spans) };
        while let Some(next) = planned.get(span.end).filter(|_| span.len < PIECE) {
            let gap = next.offset().saturating_sub(first.offset()).saturating_sub(span.len);
            // A span of several tensors is copied in one piece.
            let joined = span.len.saturating_add(gap).saturating_add(next.size());
            if joined >= 2 * PIECE
                || next.size() > 0
                    && !span.is_continued_by(ranges_of(plan, source, span.end).as_deref(), gap)
            {
                break;
            }
            if next.size() > 0 {
                span.len = joined;
            }
            span.end += 1;
        }
        Some(spans)
    }

    /// Reads a piece and passes its bytes to `each`, up to 1 MiB at a time.
    fn read(
        &self,
        mut offset: u64,
        mut len: u64,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(1 << 20)];
        while len > 0 {
            let bytes = &mut buffer[..usize::try_from(len).unwrap_or(usize::MAX).min(1 << 20)];
            self.file.read_at(offset, bytes)?;
            each(bytes)?;
            (offset, len) = (offset + bytes.len() as u64, len - bytes.len() as u64);
        }
        Ok(())
    }

    /// Returns `true` if `ranges` is one range that continues this span after `gap` zeros.
    fn is_continued_by(&self, ranges: Option<&[CopySpan<'_>]>, gap: u64) -> bool {
        let end = self.offset.saturating_add(self.len);
        let Some([range]) = ranges else { return false };
        std::ptr::eq(range.file, self.file)
            && range.offset.checked_sub(gap) == Some(end)
            && is_zero(self.file, end, gap)
    }

    /// Splits the span into pieces, as offsets in the file and lengths. Several tensors are always
    /// one piece, so that no piece ends within padding.
    fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self { offset, len, .. } = *self;
        let step = if len < 2 * PIECE { len } else { PIECE };
        (0..len.div_ceil(step.max(1)))
            .map(move |piece| (offset + piece * step, step.min(len - piece * step)))
    }
}

/// Returns the source ranges of a tensor's data, or `None` if the data must be computed.
fn ranges_of<'a>(
    plan: &Plan,
    source: &'a dyn Checkpoint,
    number: usize,
) -> Option<Vec<CopySpan<'a>>> {
    let pieces = plan.expressions.get(number)?.source_ranges()?;
    let span = |piece: SourceRange| {
        // Remote data are read in parallel, like computed data.
        let range = source.range(piece.tensor).filter(|range| !range.file.is_remote());
        let FileRange { file, offset, endian } = range?;
        let offset = offset
            .checked_add(piece.offset)
            .filter(|offset| endian == plan.endian && offset.checked_add(piece.len).is_some())?;
        Some(CopySpan { file, offset, len: piece.len, end: number + 1 })
    };
    pieces.into_iter().map(span).collect()
}

/// Returns `true` if the range has at most [`MAX_PADDING`] bytes and all are zero.
fn is_zero(file: &RandomAccess, offset: u64, len: u64) -> bool {
    let mut bytes = [0; MAX_PADDING];
    match usize::try_from(len).ok().and_then(|len| bytes.get_mut(..len)) {
        Some([]) => true,
        Some(bytes) => file.read_at(offset, bytes).is_ok() && bytes.iter().all(|&byte| byte == 0),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the caller's pool is the default number of threads.
    #[test]
    fn a_run_defaults_to_the_threads_of_its_caller() {
        let threads =
            |options: &RunOptions| options.pool().map(|pool| pool.current_num_threads()).ok();
        let within = RunOptions::with_threads(3)
            .install(|| (threads(&RunOptions::default()), threads(&RunOptions::with_threads(2))));
        assert_eq!(within.ok(), Some((Some(3), Some(2))));
    }
}

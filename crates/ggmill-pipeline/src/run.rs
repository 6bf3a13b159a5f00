//! The run: reads, converts and writes a plan, chunk by chunk, in bounded memory.

use std::ops::{ControlFlow, Range};

use ggmill_core::{Endian, PlannedTensor, WriteError, Writer};
use ggmill_io::RangeSink;
use ggmill_quant as quant;
use rayon::ThreadPool;
use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};

use crate::buffers::BufferPool;
use crate::copy_span::CopySpan;
use crate::error::{Error, ErrorKind, Result};
use crate::expression::{CHUNK, Evaluator, Expression, read_by};
use crate::plan::Plan;
use crate::source::Checkpoint;

/// How a run is done. What it gives does not depend on it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// How many threads make chunks. When not given, as many as the caller's pool has, which by
    /// default is as many as the machine runs at once. Each uses memory for a few chunks.
    pub threads: Option<usize>,
}

impl RunOptions {
    /// A run on so many threads.
    pub fn on(threads: usize) -> Self {
        Self { threads: Some(threads) }
    }

    /// Does work that is spread over threads, such as hashing or comparing models, on so many.
    ///
    /// ```
    /// use ggmill_pipeline::RunOptions;
    /// assert_eq!(RunOptions::on(2).install(|| 6 * 7)?, 42);
    /// # Ok::<(), ggmill_pipeline::Error>(())
    /// ```
    ///
    /// Fails when the threads cannot be started.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R> {
        Ok(self.pool()?.install(work))
    }

    pub(crate) fn pool(&self) -> Result<ThreadPool> {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads.unwrap_or_else(rayon::current_num_threads));
        threads.build().map_err(|error| Error::caused(ErrorKind::Io, error))
    }
}

/// How far a run has come.
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
    /// `written` of `total` bytes, the last of them of this tensor.
    pub fn new(tensor: &'a str, written: u64, total: u64) -> Self {
        Self { tensor, written, total }
    }
}

/// The report of a run's progress; it may come from any thread. [`ControlFlow::Break`] ends the
/// run.
pub type Report<'r> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + Send + 'r;

/// Streams a plan into a sink, and gives the sink back when every tensor is complete.
///
/// Tensors to which nothing is done are moved from file to file unread, where the source is files
/// and the sink can do that. Everything else goes through memory, bounded by a few chunks for each
/// thread, regardless of the size of the model. The bytes do not depend on the number of threads:
/// chunks are made in parallel and written in order. Fails when something else writes to a source
/// meanwhile. `progress` is told after each chunk and can end the run with [`ControlFlow::Break`];
/// the sink is then dropped, and `ggmill-io`'s leaves nothing behind.
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
    let mut writer = Writer::start(&plan.layout, sink).map_err(written)?;
    let mut meter =
        Meter { progress, written: 0, total: tensors.iter().map(PlannedTensor::size).sum() };
    let mut number = 0;
    // Hours of work on half an edit would end there.
    source.verify()?;
    plan.check(source)?;
    source.prefetch(&read_by(&plan.expressions));
    let mut takes_ranges = true;
    let mut made = Made::default();
    // One window is made while another is written.
    let evaluator = Evaluator::new(source, 2 * window);
    let buffers = &evaluator.buffers;
    while let Some(expression) = plan.expressions.get(number) {
        if takes_ranges && let Some(spans) = CopySpan::from(plan, source, number) {
            std::mem::take(&mut made).write(&mut writer, tensors, buffers, &mut meter)?;
            let end = spans.last().map_or(number, |span| span.end);
            takes_ranges =
                move_spans(&mut writer, number, &spans, &tensors[number..end], &mut meter)?;
            if takes_ranges {
                number = end;
                continue;
            }
        }
        for window in chunks(expression).chunks(window) {
            let mut next = Made { number, chunks: Vec::with_capacity(window.len()) };
            // What was made before is written by this thread while the others make the next.
            pool.in_place_scope(|scope| {
                let (chunks, evaluator) = (&mut next.chunks, &evaluator);
                let turn = move |chunk: &Range<u64>| {
                    make(expression, chunk.clone(), evaluator, plan.endian)
                };
                scope.spawn(move |_| window.par_iter().map(turn).collect_into_vec(chunks));
                std::mem::take(&mut made).write(&mut writer, tensors, buffers, &mut meter)
            })?;
            made = next;
        }
        number += 1;
    }
    made.write(&mut writer, tensors, buffers, &mut meter)?;
    // What was read of a file that changed meanwhile may be half of each.
    source.verify()?;
    writer.finish().map_err(written)
}

/// Chunks of one tensor that wait to be written, or why there are none.
#[derive(Default)]
struct Made {
    number: usize,
    chunks: Vec<Result<Vec<u8>>>,
}

impl Made {
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
            writer.write(self.number, &bytes).map_err(written)?;
            meter.add(tensor, bytes.len() as u64)?;
            buffers.give(bytes);
        }
        Ok(())
    }
}

/// Has the sink take spans by itself; `false` when it cannot.
fn move_spans<S>(
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
    let mut has_moved = false;
    for (span, (offset, len)) in
        spans.iter().flat_map(|span| span.pieces().map(move |piece| (span, piece)))
    {
        if !writer
            .write_with(number, len, |sink| sink.append_range(span.file, offset, len))
            .map_err(written)?
        {
            if !has_moved {
                return Ok(false);
            }
            // It took a part of the tensor, and not this one.
            span.read(offset, len, &mut |bytes| writer.write(number, bytes).map_err(written))?;
        }
        has_moved = true;
        if let [tensor] = tensors {
            meter.add(tensor, len)?;
        }
    }
    if let [_, .., last] = tensors {
        meter.add(last, tensors.iter().map(PlannedTensor::size).sum())?;
    }
    Ok(true)
}

/// Counts what has been written and says so.
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

/// Says how far a run has come, and fails when it is to stop.
pub(crate) fn report(
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

fn written<E: std::error::Error + Send + Sync + 'static>(error: WriteError<E>) -> Error {
    match error {
        WriteError::Plan(error) => Error::caused(ErrorKind::Misuse, error),
        WriteError::Sink(error) => Error::caused(ErrorKind::Io, error),
    }
}

/// Cuts a tensor into ranges of elements: whole rows where its type packs rows into blocks.
pub(crate) fn chunks(this: &Expression) -> Vec<Range<u64>> {
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

/// The bytes of one chunk of output, in its byte order.
pub(crate) fn make(
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

#[cfg(test)]
mod tests {
    use super::RunOptions;

    /// A limit on the threads of a program is one on those of its runs.
    #[test]
    fn a_run_has_the_threads_of_its_caller() {
        let threads =
            |options: &RunOptions| options.pool().map(|pool| pool.current_num_threads()).ok();
        let within = RunOptions::on(3)
            .install(|| (threads(&RunOptions::default()), threads(&RunOptions::on(2))));
        assert_eq!(within.ok(), Some((Some(3), Some(2))));
    }
}

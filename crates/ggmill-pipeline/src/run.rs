//! The run: reads, converts and writes a plan, chunk by chunk, in bounded memory.

use std::ops::ControlFlow;

use ggmill_core::{BlockLayout, Endian, GgmlType, PlannedTensor, WriteError, Writer};
use ggmill_io::RangeSink;
use ggmill_quant as quant;
use rayon::iter::{IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _};

use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Job, Plan, Work};
use crate::recipe::matrices;
use crate::rows::{RowMap, Run};
use crate::source::Checkpoint;
use crate::spare::Spare;
use crate::untouched::Untouched;

/// Elements of a chunk, unless a single row is longer: 4 MiB as f32.
const CHUNK: u64 = 1 << 20;

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

/// Streams a plan into a sink, and gives the sink back when every tensor is complete.
///
/// Tensors to which nothing is done are moved from file to file unread, where the checkpoint is files and the sink can do that. Everything else goes through
/// memory, bounded by a few chunks for each thread, whatever the size of the model. The bytes do not depend on the number of threads: chunks are made in
/// parallel and written in order. Fails when something else writes to a source meanwhile. `progress` is told after each chunk and can end the run with [`ControlFlow::Break`]; the sink is then dropped, and
/// `ggmill-io`'s leaves nothing behind.
pub fn run<S>(plan: &Plan, checkpoint: &dyn Checkpoint, sink: S, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<S>
where
    S: RangeSink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    let tensors = plan.layout.tensors();
    let mut writer = Writer::start(&plan.layout, sink).map_err(written)?;
    let mut meter = Meter { progress, written: 0, total: tensors.iter().map(PlannedTensor::size).sum() };
    let mut number = 0;
    // Hours of work on half an edit would end there.
    checkpoint.verify()?;
    let mut takes_ranges = true;
    let mut made = Made::default();
    // One window is made while another is written.
    let spare = Spare::new(4 * rayon::current_num_threads());
    while let (Some(job), Some(tensor)) = (plan.jobs.get(number), tensors.get(number)) {
        if takes_ranges && let Some(span) = Untouched::from(plan, checkpoint, number) {
            std::mem::take(&mut made).write(&mut writer, tensors, &spare, &mut meter)?;
            takes_ranges = move_span(&mut writer, number, &span, &tensors[number..span.end], &mut meter)?;
            if takes_ranges {
                number = span.end;
                continue;
            }
        }
        let about = |error: Error| error.tensor(tensor.name().as_bytes());
        let chunks = job.chunks().map_err(about)?;
        for window in chunks.chunks(2 * rayon::current_num_threads()) {
            let mut next = Made { number, chunks: Vec::with_capacity(window.len()) };
            // What was made before is written by this thread while the others make the next.
            rayon::in_place_scope(|scope| {
                let (chunks, spare) = (&mut next.chunks, &spare);
                scope.spawn(move |_| window.par_iter().map(|chunk| job.make(*chunk, checkpoint, plan.endian, spare)).collect_into_vec(chunks));
                std::mem::take(&mut made).write(&mut writer, tensors, spare, &mut meter)
            })?;
            made = next;
        }
        number += 1;
    }
    made.write(&mut writer, tensors, &spare, &mut meter)?;
    // What was read of a file that changed meanwhile may be half of each.
    checkpoint.verify()?;
    writer.finish().map_err(written)
}

/// Chunks of one tensor that wait to be written, or why there are none.
#[derive(Default)]
struct Made {
    number: usize,
    chunks: Vec<Result<Vec<u8>>>,
}

impl Made {
    fn write<S>(self, writer: &mut Writer<'_, S>, tensors: &[PlannedTensor], spare: &Spare, meter: &mut Meter<'_>) -> Result<()>
    where
        S: RangeSink,
        S::Error: std::error::Error + Send + Sync + 'static,
    {
        let Some(tensor) = tensors.get(self.number) else { return Ok(()) };
        for bytes in self.chunks {
            let bytes = bytes.map_err(|error| error.tensor(tensor.name().as_bytes()))?;
            writer.write(self.number, &bytes).map_err(written)?;
            meter.add(tensor, bytes.len() as u64)?;
            spare.give(bytes);
        }
        Ok(())
    }
}

/// Has the sink take a span by itself; `false` when it cannot.
fn move_span<S>(writer: &mut Writer<'_, S>, number: usize, span: &Untouched<'_>, tensors: &[PlannedTensor], meter: &mut Meter<'_>) -> Result<bool>
where
    S: RangeSink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    for (offset, len) in span.pieces() {
        if !writer.write_with(number, len, |sink| sink.append_range(span.file, offset, len)).map_err(written)? {
            return Ok(false);
        }
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
    progress: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    written: u64,
    total: u64,
}

impl Meter<'_> {
    fn add(&mut self, tensor: &PlannedTensor, len: u64) -> Result<()> {
        self.written += len;
        let name = tensor.name().to_string_lossy();
        match (self.progress)(Progress { tensor: &name, written: self.written, total: self.total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
        }
    }
}

fn written<E: std::error::Error + Send + Sync + 'static>(error: WriteError<E>) -> Error {
    match error {
        WriteError::Plan(error) => Error::caused(ErrorKind::Misuse, error),
        WriteError::Sink(error) => Error::caused(ErrorKind::Io, error),
    }
}

/// Elements `start..end` of an output tensor: whole rows where the type packs rows into blocks.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    start: u64,
    end: u64,
}

impl Job {
    /// Cuts the tensor into chunks.
    fn chunks(&self) -> Result<Vec<Chunk>> {
        let elements = self.shape.elements();
        let step = match layout_of(self.to)?.elements {
            1 => CHUNK,
            _ => (CHUNK / self.shape.row_len().max(1)).max(1) * self.shape.row_len(),
        };
        let starts = (0..elements).step_by(usize::try_from(step.max(1)).unwrap_or(usize::MAX));
        Ok(starts.map(|start| Chunk { start, end: elements.min(start.saturating_add(step)) }).collect())
    }

    /// The bytes of one chunk of output, in its byte order.
    fn make(&self, chunk: Chunk, checkpoint: &dyn Checkpoint, endian: Endian, spare: &Spare) -> Result<Vec<u8>> {
        let mut bytes = self.make_little(chunk, checkpoint, spare)?;
        if endian == Endian::Big {
            ggmill_core::swap_bytes(self.to, &mut bytes).map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
        }
        Ok(bytes)
    }

    fn make_little(&self, chunk: Chunk, checkpoint: &dyn Checkpoint, spare: &Spare) -> Result<Vec<u8>> {
        match &self.work {
            Work::Values(values) => self.encode(&values[usize_of(chunk.start)?..usize_of(chunk.end)?], chunk),
            Work::Gather { from, sources, map } => {
                let bytes = Gather { from: *from, sources, map, checkpoint }.bytes(chunk, spare)?;
                if *from == self.to && !self.encoding.finite {
                    return Ok(bytes);
                }
                let values = self.decode(*from, &bytes, chunk)?;
                if *from == self.to {
                    return Ok(bytes);
                }
                spare.give(bytes);
                self.encode(&values, chunk)
            }
        }
    }

    /// The values of a chunk of the source.
    fn decode(&self, from: GgmlType, bytes: &[u8], chunk: Chunk) -> Result<Vec<f32>> {
        let mut values = vec![0.0f32; usize_of(chunk.end - chunk.start)?];
        quant::dequantize(from, bytes, &mut values).map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
        if self.encoding.finite
            && let Some((index, value)) = first_where(&values, |value| !value.is_finite())
        {
            let (row, column) = self.place(chunk, index);
            return Err(Error::new(ErrorKind::NonFinite, format!("row {row}, column {column} is {value}, expected a finite number")));
        }
        Ok(values)
    }

    fn encode(&self, values: &[f32], chunk: Chunk) -> Result<Vec<u8>> {
        let mut out = vec![0; usize_of(bytes_of(self.to, chunk.end - chunk.start)?)?];
        // A type without blocks takes any stretch of a row as its row.
        let has_blocks = layout_of(self.to)?.elements > 1;
        let row_len = if has_blocks { usize_of(self.shape.row_len())? } else { values.len() };
        match &self.encoding.importance {
            Some(importance) if has_blocks => self.encode_stacked(values, importance, chunk, &mut out)?,
            _ => quant::quantize(self.to, values, row_len, None, &mut out).map_err(|error| self.placed(&error, chunk, row_len))?,
        }
        if self.encoding.finite {
            self.refuse_overflow(values, &out, chunk)?;
        }
        Ok(out)
    }

    /// Encodes whole rows that lie in one matrix of a stack or in several: each matrix has its own row of weights.
    fn encode_stacked(&self, values: &[f32], importance: &[f32], chunk: Chunk, out: &mut [u8]) -> Result<()> {
        let row_len = self.shape.row_len().max(1);
        let rows = self.shape.dimensions().get(1).copied().unwrap_or(1).max(1);
        let (mut start, mut values, mut out) = (chunk.start, values, out);
        while !values.is_empty() {
            let row = start / row_len;
            let end = chunk.end.min((row / rows + 1) * rows * row_len);
            let matrix = usize_of((row / rows) % matrices(&self.shape))?;
            let width = usize_of(row_len)?;
            let (these, later) = values.split_at(usize_of(end - start)?);
            let (blocks, rest) = out.split_at_mut(usize_of(bytes_of(self.to, end - start)?)?);
            let weights = &importance[matrix * width..(matrix + 1) * width];
            quant::quantize(self.to, these, width, Some(weights), blocks).map_err(|error| self.placed(&error, Chunk { start, end }, width))?;
            (start, values, out) = (end, later, rest);
        }
        Ok(())
    }

    /// Fails when a number, or the scale of a block it is in, has become infinite. Half floats end at 65,504, and so does every scale that is one.
    fn refuse_overflow(&self, values: &[f32], blocks: &[u8], chunk: Chunk) -> Result<()> {
        /// No scale search goes beyond the largest number of its block by as much as a factor of two.
        const SAFE: f32 = 32_768.0;
        if first_where(values, |value| value.abs() >= SAFE).is_none() {
            return Ok(());
        }
        let mut back = vec![0.0; values.len()];
        quant::dequantize(self.to, blocks, &mut back).map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
        let Some((index, _)) = first_where(&back, |value| !value.is_finite()) else { return Ok(()) };
        let ((row, column), value, to) = (self.place(chunk, index), values[index], self.to);
        let message = if to.layout().is_some_and(|layout| layout.elements > 1) {
            format!("row {row}, column {column} is in a block with numbers too large for {to}; it is {value:e}")
        } else {
            format!("row {row}, column {column} is {value:e}, which is too large for {to}")
        };
        Err(Error::new(ErrorKind::NonFinite, message))
    }

    /// The row and column of an element of a chunk.
    fn place(&self, chunk: Chunk, index: usize) -> (u64, u64) {
        let (element, row_len) = (chunk.start + index as u64, self.shape.row_len().max(1));
        (element / row_len, element % row_len)
    }

    /// Names the place of a number the type cannot hold, counted over the whole tensor.
    fn placed(&self, error: &quant::Error, chunk: Chunk, row_len: usize) -> Error {
        match error.kind() {
            quant::ErrorKind::NonFinite { row, column } => {
                let row = chunk.start / (row_len.max(1) as u64) + row as u64;
                Error::new(ErrorKind::NonFinite, format!("row {row}, column {column} is not finite, {} cannot hold it", self.to))
            }
            _ => Error::new(ErrorKind::Misuse, error.to_string()),
        }
    }
}

/// Source tensors being gathered into one of the output.
struct Gather<'a> {
    from: GgmlType,
    sources: &'a [usize],
    map: &'a RowMap,
    checkpoint: &'a dyn Checkpoint,
}

impl Gather<'_> {
    /// The source bytes that a chunk of output is made of, in the output's order.
    fn bytes(&self, chunk: Chunk, spare: &Spare) -> Result<Vec<u8>> {
        let runs = self.map.runs(chunk.start, chunk.end);
        // All of it is written: the runs are as long as the chunk.
        let mut out = spare.take(usize_of(bytes_of(self.from, chunk.end - chunk.start)?)?);
        let span = Span::worth_reading_whole(&runs);
        let whole = span.as_ref().map(|span| self.read_whole(span)).transpose()?;
        let mut rest = &mut out[..];
        for run in runs {
            let (this, next) = rest.split_at_mut(usize_of(bytes_of(self.from, run.len)?)?);
            match (&span, &whole) {
                (Some(span), Some(whole)) => {
                    let from = usize_of(bytes_of(self.from, run.start - span.start)?)?;
                    this.copy_from_slice(&whole[from..from + this.len()]);
                }
                _ => self.read(run.source, run.start, this)?,
            }
            rest = next;
        }
        Ok(out)
    }

    fn read_whole(&self, span: &Span) -> Result<Vec<u8>> {
        let mut whole = vec![0; usize_of(bytes_of(self.from, span.end - span.start)?)?];
        self.read(span.source, span.start, &mut whole)?;
        Ok(whole)
    }

    fn read(&self, source: usize, start: u64, out: &mut [u8]) -> Result<()> {
        let number = self.sources.get(source).copied().ok_or_else(|| Error::new(ErrorKind::Misuse, "the map leads outside the sources"))?;
        self.checkpoint.read(number, bytes_of(self.from, start)?, out)
    }
}

/// The stretch of one source that many short runs lie in.
struct Span {
    source: usize,
    start: u64,
    end: u64,
}

impl Span {
    /// One read of the whole stretch beats a read for each row of a permuted tensor, as long as at most half of it is for nothing.
    fn worth_reading_whole(runs: &[Run]) -> Option<Self> {
        let first = runs.first().filter(|_| runs.len() > 1)?;
        let span = runs.iter().try_fold(Self { source: first.source, start: first.start, end: 0 }, |span, run| {
            let (start, end) = (span.start.min(run.start), span.end.max(run.start + run.len));
            (run.source == span.source).then_some(Self { source: span.source, start, end })
        })?;
        let wanted: u64 = runs.iter().map(|run| run.len).sum();
        (span.end - span.start <= wanted.saturating_mul(2)).then_some(span)
    }
}

/// The first value that is so, and its index. A test without a branch for each value is several times faster, so it is asked of many at once.
fn first_where(values: &[f32], is_so: impl Fn(f32) -> bool) -> Option<(usize, f32)> {
    const STRIDE: usize = 256;
    for (number, some) in values.chunks(STRIDE).enumerate() {
        if some.iter().fold(false, |any, &value| any | is_so(value)) {
            let within = some.iter().position(|&value| is_so(value))?;
            return Some((number * STRIDE + within, some[within]));
        }
    }
    None
}

fn layout_of(ggml_type: GgmlType) -> Result<BlockLayout> {
    ggml_type.layout().ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("{ggml_type} is not a known type")))
}

fn bytes_of(ggml_type: GgmlType, elements: u64) -> Result<u64> {
    let bytes = layout_of(ggml_type)?.bytes_for(elements);
    bytes.ok_or_else(|| Error::new(ErrorKind::Checkpoint, format!("{elements} elements are no whole blocks of {ggml_type}")))
}

fn usize_of(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::new(ErrorKind::Unsupported, "a row does not fit into memory"))
}

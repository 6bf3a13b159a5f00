//! Comparing the tensors of a file with those that a recipe computes, without writing them.

use std::ops::{ControlFlow, Range};

use ggmill_core::{BlockLayout, GgmlType, RawStr};
use ggmill_quant as quant;

use crate::buffers::zeroed;
use crate::error::{Error, ErrorKind, Result};
use crate::expression::{CHUNK, Evaluator, Expression};
use crate::run::{Progress, Report, RunOptions, Workers};
use crate::source::Checkpoint;

/// Chunks between two updates of the order in which candidates are tried. It does not depend on the number
/// of threads, so neither do the results.
const WINDOW: usize = 32;

/// Returns the squared error that a type has for normally distributed values, relative to the squared values.
/// At least 2⁻¹² (1.6 % of the values), by which calibrated rounding moves weights to make up for other errors.
/// Values that the type represents exactly are not a measure for another encoding.
pub fn usual_error(ggml_type: GgmlType) -> f64 {
    let bits = ggml_type.layout().map_or(32.0, BlockLayout::bits_per_weight);
    (1.0 - 2.0 * bits).exp2().max((-12f64).exp2())
}

/// A tensor of a file, with the expressions that may have computed it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToMatch {
    /// The number of the tensor in the file.
    pub number: usize,
    /// The candidates, all of the tensor's type and shape.
    pub candidates: Vec<Expression>,
}

impl ToMatch {
    /// Creates a tensor of a file with the expressions that may have computed it.
    pub fn new(number: usize, candidates: Vec<Expression>) -> Self {
        Self { number, candidates }
    }
}

/// The result of comparing one tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Match {
    /// Every byte equals that of this candidate.
    Identical(usize),
    /// Bytes differ from those of every candidate.
    Different(Difference),
}

/// The difference of a tensor from the candidate that is nearest to it.
///
/// Errors are sums of squares over the elements, relative to the values before the last encoding.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The number of the candidate.
    pub candidate: usize,
    /// The number of blocks of the tensor; rows, for a type without blocks.
    pub blocks: u64,
    /// The number of blocks that differ.
    pub different: u64,
    /// The first and last row with a difference.
    pub rows: Option<(u64, u64)>,
    /// The squared values.
    pub signal: f64,
    /// The squared errors of the file.
    pub error: f64,
    /// The squared errors of the candidate.
    pub expected: f64,
    /// The block with the greatest error.
    pub worst: Option<WorstBlock>,
}

/// The block of a tensor whose squared error is the greatest multiple of the expected one: that of the
/// candidate, and at least the [usual one](usual_error).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct WorstBlock {
    /// Its row.
    pub row: u64,
    /// The squared values.
    pub signal: f64,
    /// The squared errors of the file.
    pub error: f64,
    /// The squared errors of the candidate.
    pub expected: f64,
    /// The multiple.
    pub ratio: f64,
}

/// Compares tensors of `file` with expressions over `source`, in bounded memory. The results are in the
/// order of `tensors`, and do not depend on the number of threads.
///
/// A tensor that equals a candidate is read and computed once. `progress` receives the number of bytes
/// of `file` that were compared.
///
/// # Errors
///
/// If reading or computing fails, `progress` stops the comparison, or a candidate has another type or
/// shape than the tensor.
pub fn match_tensors(
    tensors: &[ToMatch],
    source: &dyn Checkpoint,
    file: &dyn Checkpoint,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<Vec<Match>> {
    [source, file].into_iter().try_for_each(Checkpoint::verify)?;
    let targets = tensors
        .iter()
        .map(|tensor| Target::new(tensor, source, file))
        .collect::<Result<Vec<_>>>()?;
    let workers = options.workers()?;
    let sides = Sides { evaluator: Evaluator::new(source, 2 * workers.threads()), file };
    let mut meter =
        Meter { done: 0, total: targets.iter().map(|target| target.size).sum(), progress };

    // The first pass looks for a candidate that equals the tensor, the second measures the others.
    let mut order: Vec<usize> = Vec::new();
    let mut equal: Vec<Vec<u64>> =
        targets.iter().map(|target| vec![0; target.candidates.len()]).collect();
    let mut is_open = vec![true; targets.len()];
    let mut pending = targets
        .iter()
        .enumerate()
        .flat_map(|(number, target)| target.chunks().map(move |chunk| (number, chunk)));
    loop {
        let window: Vec<_> =
            pending.by_ref().filter(|(number, _)| is_open[*number]).take(WINDOW).collect();
        let Some(&(last, _)) = window.last() else { break };
        let found = workers.map(&window, |(number, chunk)| {
            targets[*number].first_equal(&sides, &order, chunk.clone())
        });
        for ((number, chunk), found) in window.into_iter().zip(found) {
            match found.map_err(|error| error.tensor(&targets[number].name))? {
                Some(candidate) => {
                    equal[number][candidate] += 1;
                    order.retain(|&other| other != candidate);
                    order.insert(0, candidate);
                    meter.done += targets[number].bytes(&chunk);
                }
                None => is_open[number] = false,
            }
        }
        meter.report(&targets[last])?;
    }
    let most = equal.iter().map(Vec::len).max().unwrap_or(0);
    let used: Vec<u64> = (0..most)
        .map(|number| equal.iter().filter_map(|counts| counts.get(number)).sum())
        .collect();
    let mut found = Vec::with_capacity(targets.len());
    for ((target, equal), is_open) in targets.iter().zip(&equal).zip(is_open) {
        let chunks: Vec<_> = target.chunks().collect();
        // First those that equal most of this tensor, or of the others.
        let mut nearest: Vec<usize> = (0..equal.len()).collect();
        nearest.sort_by_key(|&number| std::cmp::Reverse((equal[number], used[number])));
        if let Some(&first) = nearest.first()
            && is_open
            && equal[first] == chunks.len() as u64
        {
            found.push(Match::Identical(first));
            continue;
        }
        let mut best: Option<Difference> = None;
        let mut failure = None;
        for number in nearest {
            // If every chunk equals some candidate, each of these may equal all chunks.
            if best.is_some() && !(is_open && equal[number] > 0) {
                continue;
            }
            match target.compare(&sides, &workers, number, &chunks) {
                Ok(difference) if difference.different == 0 => {
                    best = Some(difference);
                    break;
                }
                Ok(difference) => {
                    if best.as_ref().is_none_or(|best| difference.different < best.different) {
                        best = Some(difference);
                    }
                }
                Err(error) if is_out_of_range(&error) => failure = Some(error),
                Err(error) => return Err(error.tensor(&target.name)),
            }
            meter.report(target)?;
        }
        meter.done = meter.done.saturating_add(target.size).min(meter.total);
        found.push(match (best, failure) {
            (Some(difference), _) if difference.different == 0 => {
                Match::Identical(difference.candidate)
            }
            (Some(difference), _) => Match::Different(difference),
            (None, Some(error)) => return Err(error.tensor(&target.name)),
            (None, None) => Match::Different(Difference::default()),
        });
    }
    [source, file].into_iter().try_for_each(Checkpoint::verify)?;
    Ok(found)
}

/// Returns `true` if a type cannot represent the values of a candidate, so that the file does not come from it.
fn is_out_of_range(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NonFinite | ErrorKind::Range)
}

/// The sources of both sides.
struct Sides<'a> {
    evaluator: Evaluator<'a>,
    file: &'a dyn Checkpoint,
}

/// Counts compared bytes and reports the progress.
struct Meter<'a> {
    done: u64,
    total: u64,
    progress: &'a mut Report<'a>,
}

impl Meter<'_> {
    fn report(&mut self, target: &Target<'_>) -> Result<()> {
        let name = RawStr::new(&target.name).to_string_lossy();
        match (self.progress)(Progress::new(&name, self.done, self.total)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
        }
    }
}

/// A tensor of the file whose candidates were checked.
struct Target<'a> {
    number: usize,
    name: Vec<u8>,
    ggml_type: GgmlType,
    size: u64,
    elements: u64,
    row_len: u64,
    /// Elements and bytes of a block.
    block: (u64, u64),
    candidates: &'a [Expression],
}

impl<'a> Target<'a> {
    fn new(tensor: &'a ToMatch, source: &dyn Checkpoint, file: &dyn Checkpoint) -> Result<Self> {
        let found = file.tensors().get(tensor.number);
        let found =
            found.ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        let about = |error: Error| error.tensor(&found.name);
        for candidate in &tensor.candidates {
            candidate.check(source.tensors()).map_err(about)?;
            if (candidate.ggml_type(), candidate.shape()) != (found.ggml_type, &found.shape) {
                let message = format!(
                    "is {} of shape {}, and the candidate is {} of shape {}",
                    found.ggml_type,
                    found.shape,
                    candidate.ggml_type(),
                    candidate.shape()
                );
                return Err(about(Error::new(ErrorKind::Misuse, message)));
            }
        }
        let Some(first) = tensor.candidates.first() else {
            return Err(about(Error::new(ErrorKind::Misuse, "has no candidate")));
        };
        let (elements, bytes) = first.block();
        Ok(Self {
            number: tensor.number,
            name: found.name.clone(),
            ggml_type: found.ggml_type,
            size: first.size(),
            elements: found.shape.elements(),
            row_len: found.shape.row_len().max(1),
            block: (elements, bytes as u64),
            candidates: &tensor.candidates,
        })
    }

    /// Returns the element ranges of chunks of whole rows.
    fn chunks(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (elements, row_len) = (self.elements, self.row_len);
        let step = (CHUNK / row_len).max(1).saturating_mul(row_len);
        (0..elements)
            .step_by(usize::try_from(step).unwrap_or(usize::MAX))
            .map(move |start| start..elements.min(start.saturating_add(step)))
    }

    fn bytes(&self, chunk: &Range<u64>) -> u64 {
        (chunk.end - chunk.start) / self.block.0 * self.block.1
    }

    fn read(&self, sides: &Sides<'_>, chunk: &Range<u64>) -> Result<Vec<u8>> {
        let too_large = |_| Error::new(ErrorKind::Memory, "a row does not fit into memory");
        let mut stored = zeroed(usize::try_from(self.bytes(chunk)).map_err(too_large)?)?;
        sides.file.read(self.number, chunk.start / self.block.0 * self.block.1, &mut stored)?;
        Ok(stored)
    }

    /// Returns the first candidate that equals the file in a chunk. `order` has candidates to begin with.
    fn first_equal(
        &self,
        sides: &Sides<'_>,
        order: &[usize],
        chunk: Range<u64>,
    ) -> Result<Option<usize>> {
        let stored = self.read(sides, &chunk)?;
        let count = self.candidates.len();
        let known = order.iter().copied().filter(|&number| number < count);
        let others = (0..count).filter(|number| !order.contains(number));
        for number in known.chain(others) {
            let computed =
                match sides.evaluator.bytes(&self.candidates[number], chunk.start, chunk.end) {
                    Err(error) if is_out_of_range(&error) => continue,
                    computed => computed?,
                };
            let is_equal = computed == stored;
            sides.evaluator.buffers.put_back(computed);
            if is_equal {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Compares the tensor with a candidate.
    fn compare(
        &self,
        sides: &Sides<'_>,
        workers: &Workers,
        number: usize,
        chunks: &[Range<u64>],
    ) -> Result<Difference> {
        let mut difference = Difference { candidate: number, ..Difference::default() };
        for window in chunks.chunks(WINDOW) {
            let compared =
                workers.map(window, |chunk| self.compare_chunk(sides, number, chunk.clone()));
            for compared in compared {
                difference.add(&compared?);
            }
        }
        Ok(difference)
    }

    /// Compares a chunk with a candidate, block by block.
    fn compare_chunk(
        &self,
        sides: &Sides<'_>,
        number: usize,
        chunk: Range<u64>,
    ) -> Result<Difference> {
        let stored = self.read(sides, &chunk)?;
        let expression = &self.candidates[number];
        let computed = sides.evaluator.bytes(expression, chunk.start, chunk.end)?;
        let values = sides.evaluator.values(expression.unencoded(), chunk.start, chunk.end)?;
        let decoded = |bytes: &[u8]| {
            let mut decoded = zeroed(values.len())?;
            quant::dequantize(self.ggml_type, bytes, &mut decoded)
                .map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
            Ok::<Vec<f32>, Error>(decoded)
        };
        let [of_file, of_candidate] = [decoded(&stored)?, decoded(&computed)?];
        // Rows, for a type without blocks.
        let block = if self.block.0 == 1 { self.row_len } else { self.block.0 };
        let bytes = usize::try_from(block / self.block.0 * self.block.1).unwrap_or(usize::MAX);
        let width = usize::try_from(block).unwrap_or(usize::MAX);
        let mut difference = Difference { candidate: number, ..Difference::default() };
        let usual = usual_error(self.ggml_type);
        let blocks = stored.chunks(bytes).zip(computed.chunks(bytes));
        let of_values =
            values.chunks(width).zip(of_file.chunks(width)).zip(of_candidate.chunks(width));
        for (index, ((stored, computed), ((values, of_file), of_candidate))) in
            (0u64..).zip(blocks.zip(of_values))
        {
            let row = (chunk.start + index * block) / self.row_len;
            let is_different = stored != computed;
            difference.add_block(row, is_different, usual, [values, of_file, of_candidate]);
        }
        Ok(difference)
    }
}

impl Difference {
    /// Adds a block: the values, and what the file and the candidate have for them.
    fn add_block(&mut self, row: u64, is_different: bool, usual: f64, of: [&[f32]; 3]) {
        let [values, of_file, of_candidate] = of;
        let squares = |others: &[f32]| -> f64 {
            let error = |(&value, &other): (&f32, &f32)| f64::from(value) - f64::from(other);
            values.iter().zip(others).map(error).map(|error| error * error).sum()
        };
        let signal: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
        let (error, expected) = (squares(of_file), squares(of_candidate));
        let least = expected.max(usual * signal).max(f64::MIN_POSITIVE);
        let block = WorstBlock { row, signal, error, expected, ratio: error / least };
        let rows = is_different.then_some((row, row));
        let worst = is_different.then_some(block);
        self.add(&Self {
            candidate: self.candidate,
            blocks: 1,
            different: u64::from(is_different),
            rows,
            signal,
            error: block.error,
            expected: block.expected,
            worst,
        });
    }

    fn add(&mut self, more: &Self) {
        self.blocks += more.blocks;
        self.different += more.different;
        self.rows = match (self.rows, more.rows) {
            (Some((first, last)), Some(rows)) => Some((first.min(rows.0), last.max(rows.1))),
            (rows, more) => rows.or(more),
        };
        self.signal += more.signal;
        self.error += more.error;
        self.expected += more.expected;
        if let Some(worst) = more.worst
            && self.worst.is_none_or(|known| worst.ratio > known.ratio)
        {
            self.worst = Some(worst);
        }
    }
}

//! Quantization loss: the error between the tensors of a model before and after.

use std::borrow::Cow;

use ggmill_core::{GgmlType, Shape};
use ggmill_quant as quant;

use crate::options::Importance;
use crate::types::is_integer;
use ggmill_pipeline::Checkpoint;
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Plan, RunOptions, matrices, zeroed};
use ggmill_pipeline::{Progress, Report};

/// Elements per chunk, unless a single row has more. It does not depend on the number of threads,
/// so neither do the sums.
const CHUNK_ELEMENTS: u64 = 1 << 18;
/// Chunks in flight per thread.
const CHUNKS_PER_THREAD: usize = 4;

/// The loss of a tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorLoss {
    /// The name in the output. Not necessarily UTF-8.
    pub name: Vec<u8>,
    /// The type before.
    pub from: GgmlType,
    /// The type after.
    pub to: GgmlType,
    /// The shape.
    pub shape: Shape,
    /// The size of the data after, in bytes.
    pub size: u64,
    /// The root mean square error (RMSE) of the values.
    pub rmse: f64,
    /// The RMSE with each column weighted by its importance. `None` without importance weights, or
    /// if all are 0.
    pub weighted_rmse: Option<f64>,
    /// The noise-to-signal ratio: the sum of squared errors over the sum of squared values, both
    /// weighted by importance if there is any. 0 for a tensor of zeros.
    pub relative: f64,
}

/// The loss of a run, tensor by tensor.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Losses {
    /// The measured tensors, in output order.
    pub tensors: Vec<TensorLoss>,
    /// The names of tensors that were not measured, because they are computed or combined from
    /// several tensors of the source, so there is no single tensor to compare them with.
    pub unmeasured: Vec<Vec<u8>>,
}

/// Measures the loss of a run, by reading its input and its output in parallel and in bounded
/// memory.
///
/// `plans` are the plans of the run, several for a set of shards; `written` is its output. Tensors
/// of types that hold no weights, such as integers, are skipped. `options` set the number of
/// threads, on which the result does not depend. `progress` receives the number of bytes of the
/// output compared so far.
///
/// # Errors
///
/// If reading fails, `progress` stops the run, or the tensors of `written` differ from the plans.
pub fn loss(
    plans: &[&Plan],
    checkpoint: &dyn Checkpoint,
    written: &dyn Checkpoint,
    importance: Option<&Importance>,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<Losses> {
    [checkpoint, written].into_iter().try_for_each(Checkpoint::verify)?;
    let workers = options.workers()?;
    let (pairs, unmeasured) = pairs(plans, checkpoint, written, importance)?;
    let total = pairs.iter().map(|pair| pair.size).sum();
    let mut sums = vec![Sums::default(); pairs.len()];
    let mut chunks = pairs
        .iter()
        .enumerate()
        .flat_map(|(number, pair)| pair.chunks().map(move |(start, end)| (number, start, end)));
    let (mut done, mut seen) = (0, 0);
    loop {
        let window: Vec<_> = chunks.by_ref().take(CHUNKS_PER_THREAD * workers.threads()).collect();
        let Some(&(last, ..)) = window.last() else { break };
        let found: Vec<Result<(usize, Sums)>> = workers
            .map(&window, |&(number, start, end)| Ok((number, pairs[number].sums(start, end)?)));
        for found in found {
            let (number, more) = found?;
            sums[number].add(&more);
        }
        while seen < last {
            done += pairs[seen].size;
            seen += 1;
        }
        if progress(Progress::new(&String::from_utf8_lossy(&pairs[last].name), done, total))
            .is_break()
        {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
    }
    [checkpoint, written].into_iter().try_for_each(Checkpoint::verify)?;
    let tensors = pairs.into_iter().zip(sums).map(|(pair, sums)| pair.loss(&sums)).collect();
    Ok(Losses { tensors, unmeasured })
}

/// A tensor before and after quantization.
struct Pair<'a> {
    sides: [(&'a dyn Checkpoint, usize, GgmlType); 2],
    name: Vec<u8>,
    shape: Shape,
    size: u64,
    weights: Option<Cow<'a, [f32]>>,
}

/// Returns the tensors that can be compared, and the names of tensors that cannot.
fn pairs<'a>(
    plans: &[&Plan],
    checkpoint: &'a dyn Checkpoint,
    written: &'a dyn Checkpoint,
    importance: Option<&'a Importance>,
) -> Result<(Vec<Pair<'a>>, Vec<Vec<u8>>)> {
    let planned =
        plans.iter().flat_map(|plan| plan.expressions().iter().zip(plan.layout().tensors()));
    let (mut pairs, mut unmeasured) = (Vec::new(), Vec::new());
    for (number, (expression, tensor)) in planned.enumerate() {
        let name = tensor.name().as_bytes().to_vec();
        let about = |error: Error| error.tensor(&name);
        let found = written.tensors().get(number);
        if found.is_none_or(|found| found.name != name || found.ggml_type != expression.ggml_type())
        {
            return Err(about(Error::new(ErrorKind::Misuse, "differs from the plan")));
        }
        let (to, shape) = (expression.ggml_type(), expression.shape());
        let Some((source, before)) = expression
            .origin()
            .and_then(|number| Some((number, checkpoint.tensors().get(number)?)))
        else {
            if !is_integer(to) {
                unmeasured.push(name);
            }
            continue;
        };
        let from = before.ggml_type;
        if is_integer(from) || quant::codec(from).is_err() || quant::codec(to).is_err() {
            continue;
        }
        let wanted = matrices(shape).checked_mul(shape.row_len());
        let weights = importance.and_then(|importance| importance.weights(&before.name));
        let weights = weights
            .filter(|weights| wanted == Some(weights.len() as u64))
            .and_then(|weights| for_measuring(weights, shape));
        let sides = [(checkpoint, source, from), (written, number, to)];
        pairs.push(Pair { sides, name, shape: *shape, size: tensor.size(), weights });
    }
    Ok((pairs, unmeasured))
}

impl Pair<'_> {
    /// Returns the element ranges of chunks of whole rows, which are whole blocks.
    fn chunks(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (elements, row_len) = (self.shape.elements(), self.shape.row_len().max(1));
        let step = (CHUNK_ELEMENTS / row_len).max(1).saturating_mul(row_len);
        (0..elements)
            .step_by(usize::try_from(step).unwrap_or(usize::MAX))
            .map(move |start| (start, elements.min(start.saturating_add(step))))
    }

    fn sums(&self, start: u64, end: u64) -> Result<Sums> {
        let decode = |(checkpoint, number, ggml_type): (&dyn Checkpoint, usize, GgmlType)| {
            decoded(checkpoint, number, ggml_type, start, end)
        };
        let [before, after] = self.sides.map(decode);
        let (before, after) = (
            before.map_err(|error| error.tensor(&self.name))?,
            after.map_err(|error| error.tensor(&self.name))?,
        );
        let mut sums = Sums::default();
        let row_len = usize::try_from(self.shape.row_len()).unwrap_or(0).max(1);
        for ((before, after), row) in
            before.chunks(row_len).zip(after.chunks(row_len)).zip(start / row_len as u64..)
        {
            sums.add_row(before, after, weights_of_row(self.weights.as_deref(), &self.shape, row));
        }
        Ok(sums)
    }

    fn loss(self, sums: &Sums) -> TensorLoss {
        let [(_, _, from), (_, _, to)] = self.sides;
        let weighted_rmse = self
            .weights
            .is_some()
            .then(|| (sums.weighted / sums.weights.max(f64::MIN_POSITIVE)).sqrt());
        #[expect(
            clippy::cast_precision_loss,
            reason = "a count above 2^53 changes the mean by less than its rounding"
        )]
        let rmse = (sums.squares / self.shape.elements().max(1) as f64).sqrt();
        TensorLoss {
            name: self.name,
            from,
            to,
            shape: self.shape,
            size: self.size,
            rmse,
            weighted_rmse,
            relative: sums.relative(),
        }
    }
}

/// Returns the importance that errors are weighted with, or `None` if it is zero everywhere.
///
/// With zero importance, errors of a whole matrix of a stack would be ignored, so such a matrix
/// gets the mean importance of the others. Negative importance would make errors reduce the loss,
/// so it becomes zero.
pub(crate) fn for_measuring<'a>(weights: &'a [f32], shape: &Shape) -> Option<Cow<'a, [f32]>> {
    let width = usize::try_from(shape.row_len()).unwrap_or(0).max(1);
    let is_blank = |weights: &[f32]| weights.iter().all(|&weight| weight <= 0.0);
    if is_blank(weights) {
        return None;
    }
    if weights.iter().all(|&weight| weight >= 0.0) && !weights.chunks(width).any(is_blank) {
        return Some(Cow::Borrowed(weights));
    }
    let measured: Vec<f64> = weights
        .chunks(width)
        .filter(|matrix| !is_blank(matrix))
        .flatten()
        .map(|&weight| f64::from(weight.max(0.0)))
        .collect();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a mean of f32"
    )]
    let mean = (measured.iter().sum::<f64>() / measured.len().max(1) as f64) as f32;
    let counted = |matrix: &[f32]| {
        if is_blank(matrix) {
            vec![mean; matrix.len()]
        } else {
            matrix.iter().map(|&weight| weight.max(0.0)).collect()
        }
    };
    Some(Cow::Owned(weights.chunks(width).flat_map(counted).collect()))
}

/// Returns the weights of the matrix that a row belongs to.
pub(crate) fn weights_of_row<'a>(
    weights: Option<&'a [f32]>,
    shape: &Shape,
    row: u64,
) -> Option<&'a [f32]> {
    let rows = shape.dimensions().get(1).copied().unwrap_or(1).max(1);
    let matrix = usize::try_from((row / rows) % matrices(shape).max(1)).ok()?;
    let width = usize::try_from(shape.row_len()).ok()?;
    weights?.get(matrix.checked_mul(width)?..)?.get(..width)
}

/// Reads and decodes elements `start..end` of a tensor, which must be whole blocks.
pub(crate) fn decoded(
    checkpoint: &dyn Checkpoint,
    number: usize,
    ggml_type: GgmlType,
    start: u64,
    end: u64,
) -> Result<Vec<f32>> {
    let bytes = |elements| {
        let bytes = ggml_type.layout().and_then(|layout| layout.bytes_for(elements));
        bytes.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("{elements} elements are not a multiple of the block size of {ggml_type}"),
            )
        })
    };
    let too_large = |_| Error::new(ErrorKind::Memory, "a row does not fit into memory");
    let (first, last) = (bytes(start)?, bytes(end)?);
    let mut data = zeroed(usize::try_from(last - first).map_err(too_large)?)?;
    checkpoint.read(number, first, &mut data)?;
    let mut values = zeroed(usize::try_from(end - start).map_err(too_large)?)?;
    quant::dequantize(ggml_type, &data, &mut values)
        .map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
    Ok(values)
}

/// Sums over the rows of a tensor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// The squared errors.
    squares: f64,
    /// The weighted squared errors.
    weighted: f64,
    /// The weighted squares of the values before.
    signal: f64,
    /// The weights.
    weights: f64,
}

impl Sums {
    /// Adds a row. A column without a weight has weight 1.
    pub(crate) fn add_row(&mut self, before: &[f32], after: &[f32], weights: Option<&[f32]>) {
        let mut row = Self::default();
        for (column, (&before, &after)) in before.iter().zip(after).enumerate() {
            let weight = weights
                .and_then(|weights| weights.get(column))
                .map_or(1.0, |&weight| f64::from(weight));
            let (before, error) = (f64::from(before), f64::from(before) - f64::from(after));
            row.squares += error * error;
            row.weighted += weight * error * error;
            row.signal += weight * before * before;
            row.weights += weight;
        }
        self.add(&row);
    }

    fn add(&mut self, more: &Self) {
        self.squares += more.squares;
        self.weighted += more.weighted;
        self.signal += more.signal;
        self.weights += more.weights;
    }

    /// Returns the noise-to-signal ratio, or 0 if the signal is 0.
    pub(crate) fn relative(&self) -> f64 {
        if self.signal > 0.0 { self.weighted / self.signal } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_importance_is_ignored_or_replaced_by_the_mean() {
        let shape = Shape::new(&[2, 3, 3]).unwrap();
        let measured = |weights: &[f32]| for_measuring(weights, &shape).map(Cow::into_owned);
        assert_eq!(measured(&[0.0; 6]), None);
        assert_eq!(measured(&[0.0, -0.0, -1.0, 0.0, 0.0, 0.0]), None);
        assert_eq!(
            measured(&[0.0, 1.0, 2.0, 0.0, 3.0, 4.0]),
            Some(vec![0.0, 1.0, 2.0, 0.0, 3.0, 4.0])
        );
        assert_eq!(
            measured(&[3.0, 1.0, 0.0, 0.0, 4.0, -8.0]),
            Some(vec![3.0, 1.0, 2.0, 2.0, 4.0, 0.0])
        );
    }
}

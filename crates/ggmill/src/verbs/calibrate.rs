//! Calibrated rounding: the codes of a planned model are chosen by what its matrices compute on a text.

use std::collections::HashMap;
use std::sync::Arc;

use ggmill_arch::Catalogue;
use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Checkpoint, Expression, Joined, MemorySource, Recipe, Workers};
use ggmill_quant::codec;
use ggmill_quantize::{Hessian, Inputs, Rounding};
use ggmill_run::{Chunks, LinearInputs, Replacement, linear_inputs};

use super::RunText;
use super::measuring::Measuring;
use super::running::{located, program_with_note, runner};
use crate::error::Kind;
use crate::output::Source;
use crate::progress::{Call, Stage};
use crate::{Error, Model, Note, Result};

/// The share of the chunks of a text that test the result.
const HELD_OUT: usize = 8;
/// The inputs of all experts count as much as this share of the row length in inputs of an expert.
const BLENDED_SHARE: usize = 4;

/// The chunks of a text: those to calibrate with, followed by those that test the result.
pub(super) struct Calibrated {
    chunks: Chunks,
    fitted: usize,
}

/// Reads a text, and divides it into chunks: the last eighth, at least one, is held out. A text has at least
/// two chunks. `memory` limits the memory for intermediate results, in bytes.
pub(super) fn start(
    model: &Model,
    catalogue: Catalogue,
    (text, memory): (&RunText, Option<u64>),
    threads: Option<usize>,
) -> Result<(Calibrated, Measuring)> {
    let chunks = text.read(model)?;
    let count = chunks.texts().len();
    let fitted = count - (count / HELD_OUT).max(1);
    let held_out = Measuring {
        model: model.clone(),
        catalogue,
        runner: runner(threads, memory)?,
        dataset: Some(text.name().unwrap_or_default()),
        fitted: chunks.clone().part(0, Some(fitted))?,
        held_out: chunks.clone().part(fitted, None)?,
    };
    Ok((Calibrated { chunks, fitted }, held_out))
}

/// A tensor that was rounded by what it computes on a text. Errors are sums of squares of the errors of
/// results on held-out text, relative to those of the results; of experts, the mean.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RoundedTensor {
    /// The name of the tensor.
    pub name: String,
    /// The error as written.
    pub error: f64,
    /// The error if the tensor were rounded weight by weight.
    pub plain_error: f64,
    /// The number of matrices: 1, or one for each expert or head.
    pub matrices: usize,
    /// The number of matrices that are rounded weight by weight, because that has the smaller error.
    pub plain_matrices: usize,
}

/// A tensor that can be rounded.
struct Planned {
    ggml_type: GgmlType,
    shape: Shape,
}

/// Blocks of a matrix, and their error on the held-out text, relative to the results of the matrix.
struct Candidate {
    blocks: Vec<u8>,
    error: f64,
    plain_error: f64,
}

/// The tensors that were rounded.
#[derive(Default)]
struct Rounded {
    source: MemorySource,
    /// The blocks of each tensor, and its number in the source.
    blocks: HashMap<String, (usize, Replacement)>,
    tensors: Vec<RoundedTensor>,
}

/// Rounds the tensors of recipes, whose source is `source`, on a text. `test` has the model without
/// quantization. Replaces the expressions of the tensors, and returns the source of the recipes, and the
/// tensors.
///
/// Fails if no tensor can be rounded so, if the model has no computation graph, if its inputs are not
/// finite, or if the work needs more memory than the runner allows.
pub(super) fn round(
    recipes: &mut [Recipe],
    source: impl Checkpoint + Send + 'static,
    calibrated: &Calibrated,
    test: &Measuring,
    call: &mut Call<'_>,
) -> Result<(Source, Vec<RoundedTensor>)> {
    let (model, runner) = (&test.model, &test.runner);
    let program = program_with_note(model, &test.catalogue, None, call)?;
    let mut planned = HashMap::new();
    let mut others = Vec::new();
    let mut has_importance = false;
    for tensor in recipes.iter().flat_map(|recipe| &recipe.tensors) {
        let (ggml_type, shape) = (tensor.ggml_type(), *tensor.shape());
        let name = String::from_utf8_lossy(&tensor.name).into_owned();
        let Some(encoding) = tensor.expression.encoding().filter(|_| ggml_type.is_quantized())
        else {
            continue;
        };
        has_importance |= encoding.importance.is_some();
        if Rounding::supports(ggml_type) {
            planned.insert(name, Planned { ggml_type, shape });
        } else {
            others.push(name);
        }
    }
    if planned.is_empty() {
        let message = "no tensor of the result has a type that can be rounded on a text";
        return Err(Error::misuse(message));
    }
    if has_importance {
        call.note(Note::ImportanceForOthers);
    }
    let columns = planned.values().map(|planned| planned.shape.row_len()).max().unwrap_or(0);
    let tokens = (calibrated.fitted * calibrated.chunks.context()) as u64;
    if tokens < columns {
        call.note(Note::ShortCalibration { tokens, columns });
    }
    let workers = call.run_options().workers()?;
    let mut rounded = Rounded::default();
    // Matrices with the same inputs follow each other.
    let mut shared: Option<(usize, Rounding)> = None;
    let visit = |inputs: &LinearInputs<'_>| {
        let name = inputs.name();
        let Some(Planned { ggml_type, shape }) = planned.get(name) else { return Ok(None) };
        if let Some((_, replacement)) = rounded.blocks.get(name) {
            return Ok(Some(replacement.clone()));
        }
        call.report(Stage::Rounding, rounded.tensors.len(), planned.len(), name)?;
        refuse_not_finite(inputs)?;
        let weights = inputs.weights()?;
        let found = if inputs.matrices() == 1 {
            let all = Inputs {
                columns: inputs.columns(),
                original: inputs.original(),
                rounded: inputs.replaced(),
                residuals: inputs.residuals(),
            };
            let [fit, test] = all.split(inputs.first_row(calibrated.fitted));
            let rounding = match &mut shared {
                Some((operand, rounding)) if *operand == inputs.operand() => rounding,
                shared => {
                    let mut hessian = Hessian::new(inputs.columns())?;
                    hessian.add(fit.rounded, &workers)?;
                    let rounding = Rounding::new(&hessian, &workers)?;
                    &mut shared.insert((inputs.operand(), rounding)).1
                }
            };
            candidate(rounding, *ggml_type, &weights, [&fit, &test], &workers)?
                .map(|found| vec![found])
        } else {
            of_experts(inputs, calibrated, *ggml_type, &weights, &workers)?
        };
        let Some(found) = found else { return Ok(None) };
        let (mut blocks, matrices) = (Vec::new(), found.len());
        let mut tensor = RoundedTensor {
            name: name.to_owned(),
            error: 0.0,
            plain_error: 0.0,
            matrices,
            plain_matrices: 0,
        };
        let share = 1.0 / f64::from(u32::try_from(matrices).unwrap_or(u32::MAX));
        for found in found {
            blocks.extend(found.blocks);
            tensor.error += share * found.error;
            tensor.plain_error += share * found.plain_error;
            tensor.plain_matrices += usize::from(found.error >= found.plain_error);
        }
        rounded.tensors.push(tensor);
        let blocks: Arc<[u8]> = blocks.into();
        let number = rounded.source.add(name, *ggml_type, *shape, Arc::clone(&blocks))?;
        let replacement = Replacement::new(*ggml_type, blocks);
        rounded.blocks.insert(name.to_owned(), (number, replacement.clone()));
        Ok(Some(replacement))
    };
    let reserved = memory(planned.values());
    linear_inputs(runner, &program, calibrated.chunks.texts(), reserved, visit)
        .map_err(|error| located(error, model))?;

    let mut joined = Joined::new();
    joined.add_shared(Arc::new(source));
    let first = joined.add_shared(Arc::new(rounded.source));
    for tensor in recipes.iter_mut().flat_map(|recipe| &mut recipe.tensors) {
        let name = String::from_utf8_lossy(&tensor.name).into_owned();
        if let Some((number, _)) = rounded.blocks.get(&name) {
            tensor.expression = Expression::stored(&joined, first + number)?;
        } else if planned.contains_key(&name) {
            others.push(name);
        }
    }
    let sum = |of: fn(&RoundedTensor) -> f64| rounded.tensors.iter().map(of).sum::<f64>();
    let (error, plain_error) = (sum(|tensor| tensor.error), sum(|tensor| tensor.plain_error));
    call.note(Note::Rounding {
        tensors: rounded.tensors.len(),
        // Tensors without an error, and no tensors, are as good as rounded weight by weight.
        error: if plain_error > 0.0 { error / plain_error } else { 1.0 },
        plain: rounded.tensors.iter().map(|tensor| tensor.plain_matrices).sum(),
        others,
    });
    Ok((Box::new(joined), rounded.tensors))
}

/// Fails for inputs that are not finite.
fn refuse_not_finite(inputs: &LinearInputs<'_>) -> Result<()> {
    let values = [inputs.original(), inputs.replaced()];
    let Some(place) =
        values.iter().find_map(|values| values.iter().position(|value| !value.is_finite()))
    else {
        return Ok(());
    };
    let chunk = place / (inputs.first_row(1) * inputs.columns()).max(1);
    let message = format_args!(
        "tensor {:?}: in chunk {chunk} of the text it is multiplied with numbers that are not finite",
        inputs.name()
    );
    Err(Error::new(Kind::Refused, "not_finite", message))
}

/// Rounds a matrix on the first inputs, and compares it with rounding weight by weight on the second ones.
/// Returns `None` if the matrix cannot be rounded on a text.
fn candidate(
    rounding: &Rounding,
    ggml_type: GgmlType,
    weights: &[f32],
    [fit, test]: [&Inputs<'_>; 2],
    workers: &Workers,
) -> Result<Option<Candidate>> {
    let aim = rounding.aim(weights, fit, workers)?;
    let Some(found) = rounding.round(ggml_type, &aim, workers)? else { return Ok(None) };
    let mut decoded = aim;
    let mut error_of = |blocks: &[u8]| -> Result<f64> {
        codec(ggml_type)?.dequantize(blocks, &mut decoded)?;
        Ok(test.error(weights, &decoded, workers)?)
    };
    let plain = rounding.plain(ggml_type, weights, workers)?;
    let [error, plain_error] = [error_of(&found.blocks)?, error_of(&plain)?];
    Ok(Some(if error < plain_error {
        Candidate { blocks: found.blocks, error, plain_error }
    } else {
        Candidate { blocks: plain, error: plain_error, plain_error }
    }))
}

/// Rounds a tensor with a matrix for each expert or head, each on its inputs and, with less weight, on those
/// of all.
fn of_experts(
    inputs: &LinearInputs<'_>,
    calibrated: &Calibrated,
    ggml_type: GgmlType,
    weights: &[f32],
    workers: &Workers,
) -> Result<Option<Vec<Candidate>>> {
    let columns = inputs.columns();
    let fitted = inputs.first_row(calibrated.fitted) * columns;
    let mut of_all = Hessian::new(columns)?;
    of_all.add(&inputs.replaced()[..fitted], workers)?;
    let matrices = weights.chunks_exact(weights.len() / inputs.matrices());
    let mut found = Vec::new();
    for (number, weights) in matrices.enumerate() {
        let mut hessian = Hessian::new(columns)?;
        let chunks = calibrated.chunks.texts().len();
        let [fit, test] = [0..calibrated.fitted, calibrated.fitted..chunks]
            .map(|texts| inputs.of_matrix(number, texts));
        hessian.add(&fit, workers)?;
        hessian.blend(&of_all, columns / BLENDED_SHARE);
        let rounding = Rounding::new(&hessian, workers)?;
        let [fit, test] = [&fit, &test].map(|values| Inputs {
            columns,
            original: values,
            rounded: values,
            residuals: None,
        });
        // Without tokens to test with, those of the calibration are better than none.
        let test = if test.rounded.is_empty() { &fit } else { &test };
        match candidate(&rounding, ggml_type, weights, [&fit, test], workers)? {
            Some(candidate) => found.push(candidate),
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Returns the approximate memory for rounding, in bytes: all results, and the work for the largest matrix.
fn memory<'p>(planned: impl Iterator<Item = &'p Planned>) -> u64 {
    let (mut results, mut work) = (0u64, 0u64);
    for Planned { ggml_type, shape } in planned {
        let elements = shape.elements();
        let size = ggml_type.layout().and_then(|layout| layout.bytes_for(elements));
        results = results.saturating_add(size.unwrap_or(0));
        let columns = shape.row_len();
        // Sums and products of inputs, factors in double and in single precision, and the weights, their
        // aim and the products that lead to it.
        let squares = columns.saturating_mul(columns).saturating_mul(48);
        work = work.max(squares.saturating_add(elements.saturating_mul(24)));
    }
    results.saturating_add(work)
}

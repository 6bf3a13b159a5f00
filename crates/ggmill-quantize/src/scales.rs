//! Scales of whole matrices, which hold the range of NVFP4 blocks.
//!
//! A block of NVFP4 holds magnitudes from about 2⁻⁸ to 2688. llama.cpp multiplies the products with some
//! matrices by a tensor `X.scale`, so that the blocks of `X.weight` can hold the weights divided by it.

use std::collections::BTreeSet;
use std::ops::Range;

use ggmill_arch::MixtureTraits;
use ggmill_core::{GgmlType, Shape, keys};
use ggmill_pipeline::{
    Checkpoint, Error, ErrorKind, Expression, Progress, Recipe, RecipeTensor, Report, Result,
    RunOptions, error_bound, matrices,
};
use ggmill_quant as quant;

use crate::remarks::NameList;

const TYPE: GgmlType = GgmlType::NVFP4;
/// The greatest magnitude of a block: the greatest E2M1 value times the greatest E4M3 scale.
const MAX: f32 = 6.0 * 448.0;
/// Elements that are read at a time, unless a single row is longer.
const CHUNK: u64 = 1 << 18;
/// The most rows of a matrix that are encoded to measure the error.
const SAMPLE: u64 = 64;

/// Adds a tensor `X.scale` for each tensor `X.weight` that becomes NVFP4 and that its blocks cannot hold, if
/// llama.cpp applies it, and divides the weights by it: one power of two for each matrix, so that the
/// division is exact. Other tensors stay bit for bit those of `llama-quantize`.
///
/// Reads each matrix that becomes NVFP4 once. `progress` receives the number of elements, in bytes of F32.
///
/// # Errors
///
/// If reading fails, or `progress` stops the work.
pub fn add_scales(
    recipe: &mut Recipe,
    source: &dyn Checkpoint,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<()> {
    let name = recipe.metadata.get(keys::GENERAL_ARCHITECTURE).and_then(|value| value.as_str());
    let traits = MixtureTraits::of(name.unwrap_or_default());
    let names: Vec<String> = recipe
        .tensors
        .iter()
        .map(|tensor| String::from_utf8_lossy(&tensor.name).into_owned())
        .collect();
    let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let has = |stem: &str, ending: &str| known.contains(&*format!("{stem}{ending}"));
    let accepts = |name: &str| {
        // llama.cpp aborts if a feed-forward layer has a bias and a scale.
        traits.applies_scale(name)
            && name.strip_suffix(".weight").is_some_and(|stem| {
                !has(stem, ".bias") && !has(stem, ".scale") && !has(stem, ".input_scale")
            })
    };
    let numbers: Vec<usize> = (0..names.len())
        .filter(|&number| {
            let tensor = &recipe.tensors[number];
            // Only experts have one scale each.
            let is_stack = matrices(tensor.shape()) > 1;
            tensor.ggml_type() == TYPE
                && tensor.expression.encoded().is_some()
                && (!is_stack || names[number].ends_with("_exps.weight"))
                && accepts(&names[number])
        })
        .collect();
    if numbers.is_empty() {
        return Ok(());
    }
    let bytes = |number: usize| recipe.tensors[number].shape().elements().saturating_mul(4);
    let total = numbers.iter().map(|&number| bytes(number)).sum();
    let (mut done, mut changes) = (0, Vec::new());
    for number in numbers {
        let name = &names[number];
        let about = |error: Error| error.tensor(name.as_bytes());
        let expression = &recipe.tensors[number].expression;
        let Some((values, encoding)) = expression.encoded() else { continue };
        done += bytes(number);
        if progress(Progress::new(name, done, total)).is_break() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        let values = values.to_f32().map_err(about)?;
        let Some(scales) = needed_scales(&values, source, options).map_err(about)? else {
            continue;
        };
        let divided = divided(&values, &scales).and_then(|it| it.encode(TYPE, encoding.clone()));
        changes.push((number, divided.map_err(about)?, scales));
    }
    let mut list = NameList::default();
    let scale_name = |number: usize| names[number].replace(".weight", ".scale");
    for &(number, ..) in &changes {
        list.add(scale_name(number).as_bytes());
    }
    // From the end, so that the numbers stay.
    for (number, expression, scales) in changes.into_iter().rev() {
        let shape = shape(&[scales.len() as u64])?;
        let scale = Expression::floats(shape, scales)?;
        let tensor = RecipeTensor::new(scale_name(number), scale);
        recipe.tensors[number].expression = expression;
        recipe.tensors.insert(number + 1, tensor);
    }
    let heading =
        "the range of NVFP4 blocks does not hold the weights, which are divided by scales";
    recipe.notes.extend(list.note(heading));
    Ok(())
}

fn shape(dimensions: &[u64]) -> Result<Shape> {
    Shape::new(dimensions).map_err(|error| Error::caused(ErrorKind::Misuse, error))
}

/// Divides each matrix by its scale.
fn divided(values: &Expression, scales: &[f32]) -> Result<Expression> {
    let inverse = |scale: f32| 1.0 / f64::from(scale);
    if let &[scale] = scales {
        return values.mul(inverse(scale));
    }
    let parts = scales
        .iter()
        .zip(0..)
        .map(|(&scale, number)| values.slice(2, number, 1, 1)?.mul(inverse(scale)));
    Expression::concat(2, &parts.collect::<Result<Vec<_>>>()?)
}

/// The measured range of one matrix.
#[derive(Clone, Copy, Default)]
struct Measured {
    max: f32,
    error: f64,
    energy: f64,
    is_finite: bool,
}

/// Returns the scale of each matrix, or `None` if the blocks hold all of them, or a value is not finite,
/// which the run refuses.
fn needed_scales(
    values: &Expression,
    source: &dyn Checkpoint,
    options: &RunOptions,
) -> Result<Option<Vec<f32>>> {
    let shape = values.shape();
    let count = matrices(shape);
    let (row_len, rows) = (shape.row_len(), shape.dimensions().get(1).copied().unwrap_or(1));
    let step = (CHUNK / row_len.max(1)).max(1);
    let pieces: Vec<(u64, Range<u64>)> = (0..count)
        .flat_map(|matrix| {
            let starts = (0..rows).step_by(usize::try_from(step).unwrap_or(usize::MAX));
            starts.map(move |start| (matrix, start..rows.min(start + step)))
        })
        .collect();
    let width = usize::try_from(row_len)
        .map_err(|_| Error::new(ErrorKind::Memory, "a row does not fit into memory"))?;
    let mut all = vec![Measured { is_finite: true, ..Measured::default() }; pieces.len()];
    let workers = options.workers()?;
    let measured = workers.map(&pieces, |(matrix, range)| {
        let first = matrix * rows + range.start;
        let end = matrix * rows + range.end;
        let bytes = values.evaluate(source, first * row_len..end * row_len)?;
        let floats: Vec<f32> =
            bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        measure(&floats, width, range.start, rows)
    });
    for (place, found) in all.iter_mut().zip(measured) {
        *place = found?;
    }
    if all.iter().any(|found| !found.is_finite) {
        return Ok(None);
    }
    // In the order of the pieces, so that the sums do not depend on the threads.
    let mut by_matrix = vec![Measured::default(); usize::try_from(count).unwrap_or(0)];
    for ((matrix, _), found) in pieces.iter().zip(&all) {
        let sum = &mut by_matrix[usize::try_from(*matrix).unwrap_or(0)];
        sum.max = sum.max.max(found.max);
        sum.error += found.error;
        sum.energy += found.energy;
    }
    let scales: Vec<f32> = by_matrix.iter().map(needed_scale).collect();
    let is_needed = |scale: &f32| scale.to_bits() != 1f32.to_bits();
    Ok(scales.iter().any(is_needed).then_some(scales))
}

/// Measures rows, beginning with row `first` of a matrix of `rows`, of which a sample is encoded.
fn measure(values: &[f32], width: usize, first: u64, rows: u64) -> Result<Measured> {
    let mut found = Measured { is_finite: true, ..Measured::default() };
    let size = TYPE.layout().and_then(|layout| layout.bytes_for(width as u64)).unwrap_or(0);
    let mut blocks = vec![0; usize::try_from(size).unwrap_or(0)];
    let mut decoded = vec![0.0; width];
    let failed = |error| Error::caused(ErrorKind::Unsupported, error);
    for (row, values) in (first..).zip(values.chunks_exact(width)) {
        let max = values.iter().fold(0.0f32, |max, value| max.max(value.abs()));
        found.is_finite &= values.iter().all(|value| value.is_finite());
        found.max = found.max.max(max);
        if !found.is_finite || !row.is_multiple_of((rows / SAMPLE).max(1)) {
            continue;
        }
        quant::quantize(TYPE, values, width, None, &mut blocks).map_err(failed)?;
        quant::dequantize(TYPE, &blocks, &mut decoded).map_err(failed)?;
        for (value, decoded) in values.iter().zip(&decoded) {
            let (value, decoded) = (f64::from(*value), f64::from(*decoded));
            found.error += (value - decoded) * (value - decoded);
            found.energy += value * value;
        }
    }
    Ok(found)
}

/// Returns the scale of a matrix: 1 if blocks hold it, otherwise the power of two with which its greatest
/// value uses the whole range.
fn needed_scale(found: &Measured) -> f32 {
    let is_lost = (found.error / found.energy).sqrt() > error_bound(TYPE);
    if found.max == 0.0 || found.max <= MAX && !is_lost {
        return 1.0;
    }
    // The inverse of a normal number is finite.
    let exponent = (f64::from(found.max) / f64::from(MAX)).log2().ceil().max(-126.0);
    #[expect(clippy::cast_possible_truncation, reason = "a power of two in the range of f32")]
    let scale = exponent.exp2() as f32;
    scale
}

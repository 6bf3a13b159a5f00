//! The elements of tensors as numbers.

use std::ops::Range;

use ggmill_arch::ParameterValue;
use ggmill_core::GgmlType;
use ggmill_pipeline::{Checkpoint, Encoding, Expression, Result};

/// Elements of a tensor whose values a description may ask for.
const MAX_VALUES: u64 = 1 << 16;
/// Elements that are compared at once.
const CHUNK: u64 = 1 << 18;

/// Elements as F32, NaN and infinity included.
pub(crate) fn floats(
    checkpoint: &dyn Checkpoint,
    values: &Expression,
    elements: Range<u64>,
) -> Result<Vec<f32>> {
    let values = values.encode(GgmlType::F32, Encoding::default())?;
    let bytes = values.evaluate(checkpoint, elements)?;
    let (numbers, _) = bytes.as_chunks();
    Ok(numbers.iter().map(|&number| f32::from_le_bytes(number)).collect())
}

/// All elements of a small tensor, whole numbers where its type has these. The error says why there
/// are none.
pub(crate) fn small(
    checkpoint: &dyn Checkpoint,
    name: &str,
    values: &Expression,
) -> Result<Vec<ParameterValue>, String> {
    let elements = values.shape().elements();
    if elements > MAX_VALUES {
        return Err(format!("{name} has {elements} elements, the limit is {MAX_VALUES}"));
    }
    let made = match values.ggml_type() {
        GgmlType::I64 => integers(checkpoint, values, i64::from_le_bytes),
        GgmlType::I32 => integers(checkpoint, values, |bytes| i64::from(i32::from_le_bytes(bytes))),
        _ => floats(checkpoint, values, 0..elements)
            .map(|numbers| numbers.into_iter().map(f64::from).map(ParameterValue::Float).collect()),
    };
    made.map_err(|error| error.to_string())
}

fn integers<const SIZE: usize>(
    checkpoint: &dyn Checkpoint,
    values: &Expression,
    of_bytes: impl Fn([u8; SIZE]) -> i64,
) -> Result<Vec<ParameterValue>> {
    let bytes = values.evaluate(checkpoint, 0..values.shape().elements())?;
    let (numbers, _) = bytes.as_chunks();
    Ok(numbers.iter().map(|&number| ParameterValue::Int(of_bytes(number))).collect())
}

/// Whether something holds of every run of as many elements as are compared at once.
pub(crate) fn all_chunks(
    elements: u64,
    mut holds: impl FnMut(Range<u64>) -> Result<bool>,
) -> Result<bool> {
    let mut start = 0;
    while start < elements {
        let end = elements.min(start.saturating_add(CHUNK));
        if !holds(start..end)? {
            return Ok(false);
        }
        start = end;
    }
    Ok(true)
}

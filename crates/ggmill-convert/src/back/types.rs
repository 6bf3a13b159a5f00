//! The types of the tensors of a checkpoint.

use ggmill_arch::Operation;
use ggmill_core::GgmlType;
use ggmill_pipeline::{
    Checkpoint as _, Encoding, Error, ErrorKind, Expression, GgufCheckpoint, Result,
};

use super::tensors::Restored;
use crate::elements::all_chunks;

/// The type of most tensors where none is asked for: that of the largest weights, F16 for quantized
/// ones.
pub(super) fn main_type(checkpoint: &GgufCheckpoint) -> GgmlType {
    let weights = checkpoint.tensors().iter().filter(|tensor| tensor.shape.dimensions().len() > 1);
    let largest = weights.rev().max_by_key(|tensor| tensor.shape.elements());
    match largest.map(|tensor| tensor.ggml_type) {
        Some(found @ (GgmlType::F32 | GgmlType::F16 | GgmlType::BF16)) => found,
        Some(GgmlType::F64) | None => GgmlType::F32,
        Some(_) => GgmlType::F16,
    }
}

/// The tensor in the type it is written with. Integers stay as they are.
///
/// Where no type is asked for, nothing is lost that the file has: floats of 16 bits stay, and those
/// of 32 bits get the main type only where each number survives that, as the norms of a model of 16
/// bits do.
pub(super) fn typed(
    checkpoint: &GgufCheckpoint,
    tensor: &Restored,
    main: GgmlType,
    asked: Option<GgmlType>,
) -> Result<Expression> {
    let values = &tensor.values;
    let is_integer =
        [GgmlType::I8, GgmlType::I16, GgmlType::I32, GgmlType::I64].contains(&values.ggml_type());
    if is_integer {
        return Ok(values.clone());
    }
    let encode = |wanted| values.encode(wanted, Encoding::new(None, values.ggml_type() != wanted));
    match (asked, values.ggml_type()) {
        (Some(wanted), _) => encode(wanted),
        (None, GgmlType::F16 | GgmlType::BF16) => Ok(values.clone()),
        (None, GgmlType::F32) if !survives(checkpoint, tensor, main)? => Ok(values.clone()),
        (None, _) => encode(main),
    }
}

/// Whether the file would come out again, to the bit, if the elements had this type.
fn survives(checkpoint: &GgufCheckpoint, tensor: &Restored, main: GgmlType) -> Result<bool> {
    if main == GgmlType::F32 {
        return Ok(true);
    }
    let rounded = tensor.values.encode(main, Encoding::default())?;
    let rounded = forward(&rounded.to_f32()?, &tensor.arithmetic)?;
    let exact = forward(&tensor.values, &tensor.arithmetic)?;
    all_chunks(exact.shape().elements(), |elements| {
        Ok(rounded.evaluate(checkpoint, elements.clone())?
            == exact.evaluate(checkpoint, elements)?)
    })
}

/// The arithmetic of a conversion.
fn forward(values: &Expression, arithmetic: &[Operation]) -> Result<Expression> {
    arithmetic.iter().try_fold(values.clone(), |values, operation| match operation {
        Operation::Add(number) => values.add(*number),
        Operation::Multiply(number) => values.mul(*number),
        Operation::Float => values.to_f32(),
        Operation::Exp => values.exp(),
        Operation::NegExp => values.neg_exp(),
        other => Err(Error::new(
            ErrorKind::Misuse,
            format!("{} is not an arithmetic operation", other.name()),
        )),
    })
}

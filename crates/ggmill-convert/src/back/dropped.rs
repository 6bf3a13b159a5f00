//! Parts that reversing the operations of a description removes, compared with the values that
//! conversion would add: padding, repetitions, and what several tensors of a file have in common.

use std::collections::BTreeSet;

use ggmill_arch::{Operation, Origin, Resolved, Source};
use ggmill_pipeline::{Checkpoint as _, Error, ErrorKind, Expression, GgufCheckpoint, Result};

use super::file_tensors::FileTensors;
use super::tensors::{Tensors, chosen};
use crate::elements::{all_chunks, floats};
use crate::operations::apply;

/// Fails for a tensor of which something is left out that the conversion would not give again.
pub(super) fn refuse_loss(
    checkpoint: &GgufCheckpoint,
    model: &Resolved<'_>,
    tensors: &Tensors,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    let file = FileTensors::of(checkpoint);
    for (number, tensor) in checkpoint.tensors().iter().enumerate() {
        let Some(spec) = model.tensor(&String::from_utf8_lossy(&tensor.name)) else { continue };
        let Origin::Checkpoint(sources) = &spec.origin else { continue };
        let fault = |error: Error| error.tensor(&tensor.name);
        let value = file.value(number)?;
        let (source, pieces) = chosen(sources, model, spec, &value).map_err(fault)?;
        // A run of a tensor that another one had already.
        let mut is_again = false;
        for (name, piece) in source.names.iter().zip(&pieces) {
            is_again |= !seen.insert((name, piece.run()));
        }
        if !(is_again || leaves_out(source)) {
            continue;
        }
        let inputs: Option<Vec<Expression>> =
            source.names.iter().map(|name| Some(tensors.get(name)?.values.clone())).collect();
        let Some(inputs) = inputs else { continue };
        let made = apply(source, inputs).map_err(fault)?;
        let found = value.reshape(*made.shape()).map_err(fault)?;
        if !is_same(checkpoint, &found, &made).map_err(fault)? {
            let message = format!(
                "converting the checkpoint again would not reproduce its elements: {} has \
                 different elements in the file",
                if is_again {
                    "a part that is shared with other tensors"
                } else {
                    "padding or a repetition"
                }
            );
            return Err(fault(Error::new(ErrorKind::Unsupported, message)));
        }
    }
    Ok(())
}

/// The names of the tensors that the conversion computes otherwise than the file has them.
pub(super) fn computed_otherwise(
    checkpoint: &GgufCheckpoint,
    model: &Resolved<'_>,
) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (number, tensor) in checkpoint.tensors().iter().enumerate() {
        let Some(spec) = model.tensor(&String::from_utf8_lossy(&tensor.name)) else { continue };
        let Origin::Computed(elements) = &spec.origin else { continue };
        // What a finished file has of its own.
        if elements.is_empty() || tensor.shape.elements() != elements.len() as u64 {
            continue;
        }
        let found = Expression::tensor(checkpoint, number)?.reshape(spec.shape)?;
        let made = Expression::floats(spec.shape, elements.to_vec())?;
        if !is_same(checkpoint, &found, &made)? {
            names.push(spec.name.clone());
        }
    }
    Ok(names)
}

/// Whether the way back of an alternative leaves elements out.
fn leaves_out(source: &Source) -> bool {
    let of_parts = source.parts.iter().flat_map(|part| &part.operations);
    of_parts.chain(&source.operations).any(|operation| match *operation {
        Operation::Resize { before, after, .. } => before > 0 || after > 0,
        Operation::Repeat { times, .. } => times > 1,
        _ => false,
    })
}

/// Whether the elements are the same, but for the rounding of arithmetic there and back.
fn is_same(checkpoint: &GgufCheckpoint, found: &Expression, made: &Expression) -> Result<bool> {
    const ROUNDING: f32 = 1e-5;
    let is_near = |(a, b): (&f32, &f32)| {
        a.to_bits() == b.to_bits() || (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
    };
    all_chunks(made.shape().elements(), |elements| {
        let one = floats(checkpoint, found, elements.clone())?;
        let other = floats(checkpoint, made, elements)?;
        Ok(one.iter().zip(&other).all(is_near))
    })
}

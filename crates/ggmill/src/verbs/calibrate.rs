//! Calibrated rounding: the codes of a planned model are chosen by what its matrices compute on a text.

use std::collections::HashMap;
use std::sync::Arc;

use ggmill_arch::Catalogue;
use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Expression, GgufCheckpoint, Joined, MemorySource, Recipe};
use ggmill_quantize::{Hessian, Rounding};
use ggmill_run::{Chunks, LinearInput, Runner, linear_inputs};

use super::running::{located, program_with_note};
use crate::output::Source;
use crate::progress::{Call, Stage};
use crate::{Error, Model, Note, Result};

/// The share of the chunks of a text that test the result.
const HELD_OUT: usize = 8;

/// Divides the chunks of a text: those to calibrate with, and the last eighth, at least one, to test the
/// result. A text has at least two chunks.
pub(super) fn divide(chunks: &Chunks) -> Result<(Chunks, Chunks)> {
    let count = chunks.texts().len();
    let kept = count - (count / HELD_OUT).max(1);
    let part = |first, most| chunks.clone().part(first, most);
    Ok((part(0, Some(kept))?, part(kept, None)?))
}

/// A tensor that can be rounded.
struct Planned {
    ggml_type: GgmlType,
    shape: Shape,
}

/// The matrices that were rounded.
#[derive(Default)]
struct Rounded {
    source: MemorySource,
    /// The number of each tensor in the source.
    numbers: HashMap<String, usize>,
    /// The losses of all matrices: as they are, and rounded weight by weight.
    loss: f64,
    plain_loss: f64,
}

/// Rounds the matrices of recipes for a model, whose tensors are those of `checkpoint`, on the chunks of a
/// text. Replaces their expressions, and returns the source of the recipes.
///
/// Fails if no tensor can be rounded so, if the model has no computation graph, if its inputs are not finite, or if the chunks need more
/// memory than the runner allows.
pub(super) fn round(
    recipes: &mut [Recipe],
    checkpoint: GgufCheckpoint,
    (model, catalogue): (&Model, &Catalogue),
    runner: &Runner,
    chunks: &Chunks,
    call: &mut Call<'_>,
) -> Result<Source> {
    let program = program_with_note(model, catalogue, None, call)?;
    let mut planned = HashMap::new();
    let mut others = Vec::new();
    for tensor in recipes.iter().flat_map(|recipe| &recipe.tensors) {
        let (ggml_type, shape) = (tensor.ggml_type(), *tensor.shape());
        let name = String::from_utf8_lossy(&tensor.name).into_owned();
        if tensor.expression.encoding().is_none() || !ggml_type.is_quantized() {
            continue;
        }
        if Rounding::supports(ggml_type) && shape.dimensions().len() == 2 {
            planned.insert(name, Planned { ggml_type, shape });
        } else {
            others.push(name);
        }
    }
    if planned.is_empty() {
        let message = "no tensor of the result has a type that can be rounded on a text";
        return Err(Error::misuse(message));
    }
    let workers = call.run_options().workers()?;
    let mut rounded = Rounded::default();
    // Matrices with the same inputs follow each other.
    let mut shared: Option<(usize, Rounding)> = None;
    let visit = |input: &LinearInput<'_>| {
        let Some(Planned { ggml_type, shape }) = planned.get(input.name()) else { return Ok(()) };
        if rounded.numbers.contains_key(input.name()) {
            return Ok(());
        }
        call.report(Stage::Rounding, rounded.numbers.len(), planned.len(), input.name())?;
        let rounding = match &mut shared {
            Some((operand, rounding)) if *operand == input.operand() => rounding,
            shared => {
                let mut hessian = Hessian::new(input.columns())?;
                hessian.add(input.values(), &workers)?;
                let rounding = Rounding::new(&hessian, &workers)?;
                &mut shared.insert((input.operand(), rounding)).1
            }
        };
        if let Some(found) = rounding.round(*ggml_type, &input.weights()?, &workers)? {
            let number = rounded.source.add(input.name(), *ggml_type, *shape, found.blocks)?;
            rounded.numbers.insert(input.name().to_owned(), number);
            rounded.loss += found.loss;
            rounded.plain_loss += found.plain_loss;
        }
        Ok(())
    };
    linear_inputs(runner, &program, chunks.texts(), visit)
        .map_err(|error| located(error, model))?;

    let mut joined = Joined::new();
    joined.add_shared(Arc::new(checkpoint));
    let first = joined.add_shared(Arc::new(rounded.source));
    for tensor in recipes.iter_mut().flat_map(|recipe| &mut recipe.tensors) {
        let name = String::from_utf8_lossy(&tensor.name).into_owned();
        if let Some(number) = rounded.numbers.get(&name) {
            tensor.expression = Expression::stored(&joined, first + number)?;
        } else if planned.contains_key(&name) {
            others.push(name);
        }
    }
    call.note(Note::Rounding {
        matrices: rounded.numbers.len(),
        // Matrices without a loss, and no matrices, are as good as rounded weight by weight.
        loss: if rounded.plain_loss > 0.0 { rounded.loss / rounded.plain_loss } else { 1.0 },
        others,
    });
    Ok(Box::new(joined))
}

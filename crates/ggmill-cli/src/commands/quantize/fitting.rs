//! Types chosen for a size: what is said of the choice.

use std::ops::ControlFlow;

use ggmill_core::ByteSize;
use ggmill_pipeline::{Error, ErrorKind, Report, RunOptions, SourceTensor};
use ggmill_quantize::{Fit, Goal, QuantizeOptions};

use super::refused;
use crate::console::Console;
use crate::outcome::Failure;
use crate::progress::Bar;

/// Chooses types for a goal, and says what is to be expected of them.
pub(crate) fn choose(
    goal: Goal,
    smaller: impl Fn() -> Option<String>,
    console: Console,
    fit: impl FnOnce(&RunOptions, &mut Report<'_>) -> Result<Fit, Error>,
) -> Result<Fit, Failure> {
    let mut bar = Bar::new(console);
    let fit = fit(&RunOptions::default(), &mut |progress| {
        bar.update(progress.written, progress.total, progress.tensor);
        ControlFlow::Continue(())
    });
    drop(bar);
    let fit = fit.map_err(|error| too_small(error, smaller))?;
    let [loss, least] = [fit.loss, fit.least_loss].map(|loss| loss.sqrt() * 100.0);
    if fit.is_largest {
        let asked = match goal {
            Goal::BitsPerWeight(bits) => format!("{bits} bits per weight do not reduce"),
            Goal::Size(bytes) => {
                format!("a size of {} does not reduce", ByteSize::from(bytes))
            }
            _ => "the goal does not reduce".to_owned(),
        };
        console.warn(format_args!(
            "{asked} the size of this model, which has {:.3} bits per weight",
            fit.bits_per_weight
        ));
        return Ok(fit);
    }
    if let (Some(divergence), Some(least)) = (fit.divergence, fit.least_divergence) {
        console.note(format_args!(
            "chose types with {:.3} bits per weight and a predicted KL divergence of \
             {divergence:.6}; no choice of this size has less than {least:.6}",
            fit.bits_per_weight
        ));
        return Ok(fit);
    }
    console.note(format_args!(
        "chose types with {:.3} bits per weight and a relative quantization error (RMSE) of \
         {loss:.3}%; no choice of this size has less than {least:.3}%",
        fit.bits_per_weight
    ));
    Ok(fit)
}

/// What is said where no types can be chosen, with what could allow a smaller result.
pub(super) fn too_small(error: Error, smaller: impl Fn() -> Option<String>) -> Failure {
    let hint = (error.kind() == ErrorKind::Budget).then(smaller).flatten();
    refused(error).with_hint(hint)
}

/// A hint about options that allow a smaller result.
pub(crate) fn smaller(tensors: &[SourceTensor], options: &QuantizeOptions) -> Option<String> {
    let keeps =
        !options.allow_requantize && tensors.iter().any(|tensor| tensor.ggml_type.is_quantized());
    let keeps = keeps.then_some(
        "--allow-requantize requantizes tensors that are already quantized, which loses quality",
    );
    // Their blocks have 256 elements.
    let has_long_rows = tensors.iter().any(|tensor| {
        tensor.shape.dimensions().len() > 1 && tensor.shape.row_len().is_multiple_of(256)
    });
    let lacks = (options.importance.is_none() && has_long_rows)
        .then_some("with an importance matrix (--imatrix FILE), smaller types can be used");
    let hints: Vec<&str> = keeps.into_iter().chain(lacks).collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

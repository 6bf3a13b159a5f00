//! Measures the effect of quantizing a single tensor on the output of a model.

use std::sync::Arc;

use ggmill_core::GgmlType;

use super::chunks::{ChunkInputs, OutputRange};
use super::statistics::Sums;
use super::{Chunks, Estimate, check, check_next_tokens, compare};
use crate::error::{Error, ErrorKind, Result};
use crate::program::Program;
use crate::run::Runner;

/// A tensor and the type to try for it; all other tensors keep their types.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// The name of the tensor.
    pub tensor: String,
    /// The type.
    pub ggml_type: GgmlType,
    /// Importance weights: a row per matrix of the tensor, in it a number per column.
    importance: Option<Arc<Vec<f32>>>,
}

impl Trial {
    /// Creates a trial of a tensor with a type.
    pub fn new(tensor: impl Into<String>, ggml_type: GgmlType) -> Self {
        Self { tensor: tensor.into(), ggml_type, importance: None }
    }

    /// Sets the importance weights: a row per matrix of the tensor, in it a number per column.
    #[must_use]
    pub fn with_importance(self, importance: Option<Vec<f32>>) -> Self {
        Self { importance: importance.map(Arc::new), ..self }
    }
}

/// The outcome of a [`Trial`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum TrialOutcome {
    /// The mean KL divergence from the output of the unmodified model.
    Divergence(Estimate),
    /// The output is not finite.
    NotFinite,
    /// The computation graph does not use the tensor.
    Unused,
}

impl TrialOutcome {
    /// Returns the mean KL divergence, if there is one.
    pub fn divergence(self) -> Option<Estimate> {
        match self {
            Self::Divergence(mean) => Some(mean),
            Self::NotFinite | Self::Unused => None,
        }
    }
}

/// Measures the effect of each trial on the output of a model.
///
/// Only the operations after the first use of the tensor are repeated. `watch` is called with the number of
/// finished trials and the total. If memory is limited, the text is divided, and all trials are repeated
/// for each part. An error from `watch` ends the measurement.
///
/// Fails if the row length of a tensor is not a multiple of the type's block size, if the type cannot be
/// encoded or requires importance weights that are missing, and like [`measure`](super::measure).
pub fn trials<E: From<Error>>(
    runner: &Runner,
    program: &Program<'_>,
    chunks: &Chunks,
    trials: &[Trial],
    mut watch: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<Vec<TrialOutcome>, E> {
    check(program, None)?;
    check_next_tokens(program, chunks)?;
    let mut variants = Vec::with_capacity(trials.len());
    let mut numbers = Vec::with_capacity(trials.len());
    for (number, trial) in trials.iter().enumerate() {
        let importance = trial.importance.as_ref();
        if let Some(variant) =
            program.with_requantized(&trial.tensor, trial.ggml_type, importance)?
        {
            variants.push(variant);
            numbers.push(number);
        }
    }
    let (length, counted) = (chunks.context() as u64, chunks.scored());
    let rows = program.output_positions(chunks, OutputRange::Scored);
    let outputs = rows.len() as u64;
    let width = usize::try_from(program.output_len()).map_err(|_| Error::memory(usize::MAX))?;
    // The states of the model and of a variant are in memory together, with the logits of the model.
    let needed = |texts: u64| {
        let states = program.memory_of_states(texts, length, runner.threads());
        let logits = texts.saturating_mul(outputs).saturating_mul(4 * width as u64);
        let held = states.saturating_mul(2).saturating_add(logits);
        held.saturating_add(program.memory_of_output(outputs))
    };
    let at_once = runner.texts_within(length, &needed)?;
    let mut divergences: Vec<Option<Vec<f64>>> = vec![Some(Vec::new()); trials.len()];
    let groups = chunks.texts().chunks(at_once);
    let all = variants.len() * groups.len();
    let mut done = 0;
    for texts in groups {
        let divided = ChunkInputs::of(program, texts)?;
        let (tokens, sources) = (divided.texts(), divided.sources());
        let states = runner.states_observed(program, &tokens, sources, None)?;
        let base: Result<Vec<Vec<f32>>> = (0..texts.len())
            .map(|text| runner.output(program, &states, text, rows.clone()))
            .collect();
        let base = base?;
        drop(states);
        for (text, base) in texts.iter().zip(&base) {
            // An error of the model itself is not the outcome of a trial.
            let next_tokens = &text[counted.start + 1..=counted.end];
            runner.install(|| compare(base, Some(base), width, next_tokens))?;
        }
        let given = (tokens.as_slice(), sources);
        runner.states_of_variants(program, &variants, given, |variant, states| {
            for (number, (text, base)) in texts.iter().zip(&base).enumerate() {
                let logits = runner.output(&variants[variant], &states, number, rows.clone())?;
                let next_tokens = &text[counted.start + 1..=counted.end];
                let found = &mut divergences[numbers[variant]];
                match runner.install(|| compare(&logits, Some(base), width, next_tokens)) {
                    Ok(positions) => {
                        let more = positions.iter().map(|position| position.divergence);
                        if let Some(found) = found {
                            found.extend(more);
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::NotFinite => *found = None,
                    Err(error) => return Err(error.into()),
                }
            }
            done += 1;
            watch(done, all)
        })?;
    }
    program.model.verify().map_err(Error::from)?;
    let outcome = |divergences: Option<Vec<f64>>| match divergences {
        None => TrialOutcome::NotFinite,
        Some(found) if found.is_empty() => TrialOutcome::Unused,
        Some(found) => TrialOutcome::Divergence(Sums::of(found.into_iter()).mean()),
    };
    Ok(divergences.into_iter().map(outcome).collect())
}

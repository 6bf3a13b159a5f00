//! Measurements of a model on a text: importance, sensitivities, and the test of a result.

use std::fmt;
use std::path::Path;

use ggmill_arch::Catalogue;
use ggmill_pipeline::Sensitivity;
use ggmill_quantize::{ImatrixRun, Importance, ImportanceFilter, Sensitivities, ToMeasure};
use ggmill_run::{
    Chunks, Matrices, Program, Runner, Trial, TrialOutcome, activations, measure, trials,
};

use super::running::{find_program, imatrix_of, located, note_unused_experts, program_with_note};
use crate::progress::{Call, Stage};
use crate::{Model, Note, Result};

/// A model and the chunks of a text: half of them for the measurement, half to test the result.
pub(super) struct Measuring {
    pub(super) model: Model,
    pub(super) catalogue: Catalogue,
    pub(super) runner: Runner,
    /// The name of the text in the importance matrix; `None` if none is to be measured.
    pub(super) dataset: Option<String>,
    /// The chunks for measuring sensitivities.
    pub(super) fitted: Chunks,
    /// The chunks for testing the result.
    pub(super) held_out: Chunks,
}

impl fmt::Debug for Measuring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measuring").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Measuring {
    fn program(&self) -> Result<Program<'_>> {
        find_program(&self.model, &self.catalogue, None)
    }

    /// Measures the importance matrix, unless none is to be measured.
    pub(super) fn importance(&self, call: &mut Call<'_>) -> Result<Option<Importance>> {
        let Some(dataset) = &self.dataset else { return Ok(None) };
        let (program, texts) = (self.program()?, self.fitted.texts());
        let sums = activations(&self.runner, &program, texts, Matrices::All, |_, done| {
            call.report(Stage::Importance, done, texts.len(), "")
        });
        let sums = sums.map_err(|error| located(error, &self.model))?;
        note_unused_experts(&sums, call);
        let run = ImatrixRun::new(self.fitted.context()).with_dataset(Some(dataset.clone()));
        let imatrix = imatrix_of(&run, &sums, texts.len())?;
        Ok(Importance::new(&imatrix, None, &ImportanceFilter::All))
    }

    /// Measures the sensitivities of the tensors whose types are chosen.
    pub(super) fn sensitivities(
        &self,
        tensors: Vec<ToMeasure>,
        call: &mut Call<'_>,
    ) -> Result<Sensitivities> {
        let trial = |tensor: &ToMeasure| {
            let name = String::from_utf8_lossy(&tensor.name);
            Trial::new(name, tensor.ggml_type).with_importance(tensor.importance.clone())
        };
        let asked: Vec<Trial> = tensors.iter().map(trial).collect();
        let base = self.program()?;
        let found = trials(&self.runner, &base, &self.fitted, &asked, |done, all| {
            call.report(Stage::Sensitivities, done, all, "")
        });
        let found = found.map_err(|error| located(error, &self.model))?;
        let with = |outcome: TrialOutcome| {
            let tried = tensors.iter().zip(&found);
            tried.filter(move |(_, found)| **found == outcome).map(|(tensor, _)| tensor)
        };
        let unused = with(TrialOutcome::Unused).count();
        if unused > 0 {
            call.note(Note::NotInGraph(unused));
        }
        let not_finite: Vec<&ToMeasure> = with(TrialOutcome::NotFinite).collect();
        if let [first, others @ ..] = &*not_finite {
            let tensor = String::from_utf8_lossy(&first.name).into_owned();
            let (ggml_type, more) = (first.ggml_type, others.len());
            call.note(Note::NotFinite { tensor, ggml_type, more });
        }
        let sensitivity = |(tensor, found): (ToMeasure, TrialOutcome)| {
            let divergence = found.divergence()?.value;
            let found = Sensitivity::new(tensor.ggml_type, divergence)?;
            Some((tensor.name, found.with_importance(tensor.importance.is_some())))
        };
        Ok(tensors.into_iter().zip(found).filter_map(sensitivity).collect())
    }

    /// Measures the written model on the held-out text.
    pub(super) fn test(
        &self,
        path: &Path,
        predicted: Option<f64>,
        call: &mut Call<'_>,
    ) -> Result<()> {
        let model = Model::open(path)?;
        let program = program_with_note(&model, &self.catalogue, None, call)?;
        let base = self.program()?;
        let measured =
            measure(&self.runner, &program, Some(&base), &self.held_out, false, |chunk| {
                call.report(Stage::Testing, chunk.chunk.saturating_add(1), chunk.chunks, "")
            });
        let measured = measured.map_err(|error| located(error, &model))?;
        let Some(comparison) = measured.comparison else { return Ok(()) };
        let mean = comparison.divergence.mean;
        call.note(Note::Tested {
            divergence: (mean.value, mean.error),
            predicted,
            same_top: comparison.same_top.value,
            positions: measured.counted as u64,
        });
        Ok(())
    }
}

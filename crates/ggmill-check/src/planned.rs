//! Models that are checked before they are written.

use ggmill_arch::Catalogue;
use ggmill_core::{Model, keys};
use ggmill_pipeline::{Plan, Result};

use crate::{Diagnostic, Input, Options, Report, Severity, check, check_set};

/// Checks the files of a model before they are written: one file, or all shards of a set in order.
/// There is a report for each.
///
/// A plan has the whole header of its file and its length, which is all that the rules look at apart
/// from tensor data, so that the findings are those of the file. What needs hours to write is
/// refused before the work. Fails when a plan is not one of a file that can be read.
///
/// ```
/// use ggmill_arch::Catalogue;
/// use ggmill_check::{Options, check_plans};
/// use ggmill_core::MetadataBuf;
/// use ggmill_pipeline::{MemorySource, Recipe};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.name", "Without an architecture");
/// let plan = Recipe::new(metadata, Vec::new()).plan(&MemorySource::new())?;
/// let reports = check_plans(&[&plan], &Catalogue::new(), &Options::default())?;
/// assert!(reports[0].has_errors());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_plans(
    plans: &[&Plan],
    catalogue: &Catalogue,
    options: &Options,
) -> Result<Vec<Report>> {
    Ok(reports(&models(plans)?, catalogue, options))
}

/// Findings for a model before it is written, and whether they prevent writing it.
///
/// ```
/// use ggmill_arch::Catalogue;
/// use ggmill_check::CheckedPlans;
/// use ggmill_core::MetadataBuf;
/// use ggmill_pipeline::{MemorySource, Recipe};
/// let plan = Recipe::new(MetadataBuf::new(), Vec::new()).plan(&MemorySource::new())?;
/// let checked = CheckedPlans::of(&[&plan], &Catalogue::new())?;
/// // A header alone is a part of a model.
/// assert!(checked.reports()[0].has_errors() && checked.refusal().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct CheckedPlans {
    reports: Vec<Report>,
    is_part: bool,
}

impl CheckedPlans {
    /// Holds the files of a model to all requirements, as [`check_plans`] does, and fails as that
    /// does.
    pub fn of(plans: &[&Plan], catalogue: &Catalogue) -> Result<Self> {
        let models = models(plans)?;
        let vocabulary = models.first().and_then(|model| {
            let entry = model.metadata().get(keys::TOKENIZER_MODEL)?;
            let value = entry.value().ok()?;
            Some(value.as_str() != Some("none"))
        });
        let has_tensors = models.iter().any(|model| !model.tensors().is_empty());
        let is_part = !has_tensors || !vocabulary.unwrap_or(false);
        Ok(Self { reports: reports(&models, catalogue, &Options::default()), is_part })
    }

    /// The findings, for each file.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// The first error, for which the model is not to be written. A part of a model, such as one
    /// without its vocabulary, is not refused: what is missing was left out.
    pub fn refusal(&self) -> Option<&Diagnostic> {
        let mut found = self.reports.iter().flat_map(Report::diagnostics);
        found.find(|found| found.severity == Severity::Error && !self.is_part)
    }
}

fn models(plans: &[&Plan]) -> Result<Vec<Model>> {
    plans.iter().map(|plan| plan.model()).collect()
}

fn reports(models: &[Model], catalogue: &Catalogue, options: &Options) -> Vec<Report> {
    let inputs: Vec<Input<'_>> = models
        .iter()
        .filter_map(|model| model.parts().first())
        .map(|part| Input::new(part).with_catalogue(catalogue))
        .collect();
    match &*inputs {
        [one] => vec![check(one, options)],
        several => check_set(several, options),
    }
}

//! Models that are checked before they are written.

use ggmill_arch::Catalogue;
use ggmill_core::Model;
use ggmill_pipeline::{Plan, Result};

use crate::{Input, Options, Report, check, check_set};

/// Checks the files of a model before they are written: one file, or all shards of a set in their
/// order. There is a report for each.
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
    let models: Vec<Model> = plans.iter().map(|plan| plan.model()).collect::<Result<_>>()?;
    let inputs: Vec<Input<'_>> = models
        .iter()
        .filter_map(|model| model.parts().first())
        .map(|part| Input::new(part).with_catalogue(catalogue))
        .collect();
    Ok(match &*inputs {
        [one] => vec![check(one, options)],
        several => check_set(several, options),
    })
}

//! Files that are loaded with a model.

use std::collections::BTreeMap;

use ggmill_arch::Architecture;
use ggmill_core::Model;

use crate::error::Result;
use crate::estimate::{Estimate, estimate};
use crate::options::Options;

/// Files that are loaded beside a model; the default is none.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Beside<'a> {
    /// A projector for images or sound.
    pub projector: Option<&'a Model>,
    /// Adapters.
    pub adapters: Vec<&'a Model>,
    /// A model that drafts for this one, and the description of its architecture.
    pub draft: Option<(&'a Model, Option<&'a Architecture>)>,
}

impl Beside<'_> {
    /// The estimate of a model and all of these together. The draft model has the options of the
    /// model, and its context where the options have none; overrides are of the model alone.
    ///
    /// Fails as [`estimate`] does, for any of the files.
    pub fn estimate(
        &self,
        model: &Model,
        description: Option<&Architecture>,
        options: &Options,
    ) -> Result<Estimate> {
        let mut all = estimate(model, description, options)?;
        if let Some(projector) = self.projector {
            all.add_projector(projector)?;
        }
        for adapter in &self.adapters {
            all.add_adapter(adapter)?;
        }
        if let Some((draft, description)) = self.draft {
            let mut options = options.clone();
            options.context = options.context.or(all.context_length());
            options.placement.overrides = BTreeMap::new();
            options.placement.patterns = Vec::new();
            all.add(&estimate(draft, description, &options)?)?;
        }
        Ok(all)
    }
}

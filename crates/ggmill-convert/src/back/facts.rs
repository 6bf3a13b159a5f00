//! Facts about a checkpoint that descriptions use, derived from the tensors of a file.

use std::collections::BTreeMap;

use ggmill_arch::{Architecture, CheckpointFacts, NameRules, ParameterValue};
use ggmill_core::Shape;
use ggmill_pipeline::GgufCheckpoint;
use serde_json::Value;

use super::tensors::{Restored, Tensors};
use crate::elements::small;
use crate::vocabulary::builtin_template;

/// What is known of the checkpoint that comes of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) tensors: Tensors,
    /// How its names become those of `tensors`.
    pub(super) rules: NameRules,
}

/// The checkpoint that comes of a file, as its architecture's description sees it.
pub(super) struct Facts<'a> {
    checkpoint: &'a GgufCheckpoint,
    /// By the names that replacements give which do not depend on tensors.
    tensors: BTreeMap<String, &'a Restored>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(
        checkpoint: &'a GgufCheckpoint,
        known: &'a Known,
        architecture: &Architecture,
        config: &Value,
    ) -> Self {
        let rules = architecture.name_rules(config);
        let name = |name: &str| rules.renamed(&known.rules.original(name));
        let tensors = known.tensors.iter().map(|(known, tensor)| (name(known), tensor)).collect();
        Self { checkpoint, tensors }
    }
}

impl CheckpointFacts for Facts<'_> {
    fn shape(&self, name: &str) -> Option<Shape> {
        self.tensors.get(name).map(|tensor| *tensor.values.shape())
    }

    fn values(&self, name: &str) -> Result<Vec<ParameterValue>, String> {
        let tensor = self.tensors.get(name).ok_or("there is no such tensor")?;
        small(self.checkpoint, name, &tensor.values)
    }

    fn chat_template(&self, name: &str) -> Option<&str> {
        builtin_template(name).ok()
    }

    /// None are known: a file has no rows that exist to be left out.
    fn zero_rows(&self, _: &str) -> Result<Vec<u64>, String> {
        Ok(Vec::new())
    }

    /// Of a name that a description looks into; the directory is yet to be made.
    fn name(&self) -> Option<&str> {
        Some("")
    }
}

//! Facts about a checkpoint that descriptions use, derived from the tensors of a file.

use std::collections::BTreeMap;

use ggmill_arch::{Architecture, CheckpointFacts, NameRules, ParameterValue};
use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Encoding, GgufCheckpoint};
use serde_json::Value;

use super::tensors::{Restored, Tensors};
use crate::vocabulary::builtin_template;

/// Elements of a tensor whose values a description may ask for.
const MAX_VALUES: u64 = 1 << 16;

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
        let elements = tensor.values.shape().elements();
        if elements > MAX_VALUES {
            return Err(format!("{name} has {elements} elements, the limit is {MAX_VALUES}"));
        }
        let made = match tensor.values.ggml_type() {
            GgmlType::I32 => tensor.values.evaluate(self.checkpoint, 0..elements).map(|bytes| {
                let (numbers, _) = bytes.as_chunks();
                let int = |&bytes| ParameterValue::Int(i32::from_le_bytes(bytes).into());
                numbers.iter().map(int).collect()
            }),
            _ => tensor
                .values
                .encode(GgmlType::F32, Encoding::default())
                .and_then(|values| values.evaluate(self.checkpoint, 0..elements))
                .map(|bytes| {
                    let (numbers, _) = bytes.as_chunks();
                    let float = |&bytes| ParameterValue::Float(f32::from_le_bytes(bytes).into());
                    numbers.iter().map(float).collect()
                }),
        };
        made.map_err(|error| error.to_string())
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

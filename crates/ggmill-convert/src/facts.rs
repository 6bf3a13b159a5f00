//! Facts about a checkpoint, other than its configuration, that descriptions use.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::{Architecture, CheckpointFacts, ParameterValue};
use ggmill_core::Shape;
use ggmill_pipeline::{Error, ErrorKind, Pretrained, Result};
use serde_json::Value;

use crate::elements::{self, all_chunks, small};
use crate::vocabulary::{builtin_template, document};
use crate::weights::Weights;

/// Bytes of a text that a description may ask for: a model card has a few thousand.
const MAX_TEXT: u64 = 4 << 20;

/// A checkpoint as its architecture's description sees it.
pub(crate) struct Facts<'a> {
    weights: &'a Weights<'a>,
    /// Places of the tensors by the names that the description has for them.
    names: BTreeMap<String, usize>,
    /// Shapes of the tensors that only say how others are packed.
    packing: BTreeMap<String, Shape>,
}

impl<'a> Facts<'a> {
    pub(crate) fn of(weights: &'a Weights<'a>, architecture: &Architecture) -> Self {
        let rules = architecture.name_rules(weights.checkpoint().config());
        let names = weights.names().enumerate();
        let names = names.map(|(number, name)| (rules.renamed(&name), number)).collect();
        let packing = weights.left_out();
        let packing = packing.map(|(name, shape)| (rules.renamed(&name), shape)).collect();
        Self { weights, names, packing }
    }
}

/// The JSON files that a description names, where they are present.
pub(crate) fn documents(
    checkpoint: &dyn Pretrained,
    architecture: &Architecture,
) -> Result<BTreeMap<String, Value>> {
    let mut documents = BTreeMap::new();
    for name in architecture.documents().collect::<BTreeSet<_>>() {
        let found = document(checkpoint.side_files(), name)?;
        documents.extend(found.map(|found| (name.to_owned(), found)));
    }
    Ok(documents)
}

impl CheckpointFacts for Facts<'_> {
    fn shape(&self, name: &str) -> Option<Shape> {
        let &number = self.names.get(name)?;
        Some(self.weights.shape(number))
    }

    fn packing_shape(&self, name: &str) -> Option<Shape> {
        self.packing.get(name).copied()
    }

    fn values(&self, name: &str) -> Result<Vec<ParameterValue>, String> {
        let &number = self.names.get(name).ok_or("there is no such tensor")?;
        let values = self.weights.values(number).map_err(|error| error.to_string())?;
        small(self.weights.checkpoint(), name, &values)
    }

    fn zero_rows(&self, name: &str) -> Result<Vec<u64>, String> {
        let &number = self.names.get(name).ok_or("there is no such tensor")?;
        let shape = self.weights.shape(number);
        let (width, mut rows) = (shape.row_len(), Vec::new());
        for row in 0..shape.elements().checked_div(width).unwrap_or(0) {
            let elements = row.saturating_mul(width)..row.saturating_add(1).saturating_mul(width);
            let values = floats(self.weights, number, elements);
            if values.map_err(|error| error.to_string())?.iter().all(|&value| value == 0.0) {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn has_file(&self, name: &str) -> bool {
        self.weights.checkpoint().side_files().has(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        let bytes = self.weights.checkpoint().side_files().read(name, MAX_TEXT).ok()??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn token(&self, text: &str) -> Option<u64> {
        let tokenizer =
            document(self.weights.checkpoint().side_files(), "tokenizer.json").ok()??;
        let added = tokenizer.get("added_tokens").and_then(Value::as_array);
        let added = added.into_iter().flatten().find(|token| token["content"] == text);
        let id = added
            .map_or_else(|| tokenizer.pointer("/model/vocab")?.get(text), |token| token.get("id"));
        id?.as_u64()
    }

    fn name(&self) -> Option<&str> {
        self.weights.checkpoint().name()
    }

    fn chat_template(&self, name: &str) -> Option<&str> {
        builtin_template(name).ok()
    }
}

fn floats(
    weights: &Weights<'_>,
    number: usize,
    elements: std::ops::Range<u64>,
) -> Result<Vec<f32>> {
    elements::floats(weights.checkpoint(), &weights.values(number)?, elements)
}

/// Whether two tensors of a checkpoint have the same shape and elements.
pub(crate) fn same_elements(weights: &Weights<'_>, a: usize, b: usize) -> Result<bool> {
    if weights.shape(a) != weights.shape(b) {
        return Ok(false);
    }
    all_chunks(weights.shape(a).elements(), |elements| {
        Ok(floats(weights, a, elements.clone())? == floats(weights, b, elements)?)
    })
}

/// Fails for a tensor that has an element other than zero: the architecture has no place for it.
pub(crate) fn require_zeros(weights: &Weights<'_>, number: usize) -> Result<()> {
    let is_zero = all_chunks(weights.shape(number).elements(), |elements| {
        Ok(floats(weights, number, elements)?.iter().all(|&element| element == 0.0))
    })?;
    if is_zero {
        return Ok(());
    }
    let message = "expected only zeros, as the architecture has no such tensor";
    Err(Error::new(ErrorKind::Unsupported, message).tensor(weights.name(number).as_bytes()))
}

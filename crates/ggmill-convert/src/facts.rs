//! Facts about a checkpoint, other than its configuration, that descriptions use.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::{Architecture, CheckpointFacts, ParameterValue};
use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Encoding, Error, ErrorKind, Pretrained, Result};
use serde_json::Value;

use crate::vocabulary::{builtin_template, document};
use crate::weights::Weights;

/// Elements of a tensor whose values a description may ask for.
const MAX_VALUES: u64 = 1 << 16;
/// Bytes of a text that a description may ask for: a model card has a few thousand.
const MAX_TEXT: u64 = 4 << 20;
/// Elements that are compared at once.
const CHUNK: u64 = 1 << 20;

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
        let elements = self.shape(name).map_or(0, |shape| shape.elements());
        if elements > MAX_VALUES {
            return Err(format!("{name} has {elements} elements, the limit is {MAX_VALUES}"));
        }
        let values = match self.weights.ggml_type(number) {
            Some(GgmlType::I64) => integers(self.weights, number, elements, i64::from_le_bytes),
            Some(GgmlType::I32) => {
                let of_bytes = |bytes| i64::from(i32::from_le_bytes(bytes));
                integers(self.weights, number, elements, of_bytes)
            }
            _ => floats(self.weights, number, 0..elements).map(|values| {
                values.into_iter().map(f64::from).map(ParameterValue::Float).collect()
            }),
        };
        values.map_err(|error| error.to_string())
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

fn integers<const SIZE: usize>(
    weights: &Weights<'_>,
    number: usize,
    elements: u64,
    of_bytes: impl Fn([u8; SIZE]) -> i64,
) -> Result<Vec<ParameterValue>> {
    let bytes = weights.values(number)?.evaluate(weights.checkpoint(), 0..elements)?;
    let (numbers, _) = bytes.as_chunks();
    Ok(numbers.iter().map(|&number| ParameterValue::Int(of_bytes(number))).collect())
}

fn floats(
    weights: &Weights<'_>,
    number: usize,
    elements: std::ops::Range<u64>,
) -> Result<Vec<f32>> {
    let tensor = weights.values(number)?;
    let tensor = tensor.encode(GgmlType::F32, Encoding::new(None, false))?;
    let bytes = tensor.evaluate(weights.checkpoint(), elements)?;
    let (numbers, _) = bytes.as_chunks();
    Ok(numbers.iter().map(|&number| f32::from_le_bytes(number)).collect())
}

/// Whether two tensors of a checkpoint have the same shape and elements.
pub(crate) fn same_elements(weights: &Weights<'_>, a: usize, b: usize) -> Result<bool> {
    if weights.shape(a) != weights.shape(b) {
        return Ok(false);
    }
    chunks(weights.shape(a).elements(), |elements| {
        Ok(floats(weights, a, elements.clone())? == floats(weights, b, elements)?)
    })
}

/// Fails for a tensor that has an element other than zero: the architecture has no place for it.
pub(crate) fn require_zeros(weights: &Weights<'_>, number: usize) -> Result<()> {
    let is_zero = chunks(weights.shape(number).elements(), |elements| {
        Ok(floats(weights, number, elements)?.iter().all(|&element| element == 0.0))
    })?;
    if is_zero {
        return Ok(());
    }
    let message = "expected zeros alone: the architecture has no such tensor";
    Err(Error::new(ErrorKind::Unsupported, message).tensor(weights.name(number).as_bytes()))
}

/// Whether something holds of every chunk.
fn chunks(
    elements: u64,
    mut holds: impl FnMut(std::ops::Range<u64>) -> Result<bool>,
) -> Result<bool> {
    let mut start = 0;
    while start < elements {
        let end = elements.min(start.saturating_add(CHUNK));
        if !holds(start..end)? {
            return Ok(false);
        }
        start = end;
    }
    Ok(true)
}

//! What descriptions ask about a checkpoint besides its configuration.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::{Architecture, CheckpointFacts, ParameterValue};
use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Checkpoint, Encoding, Error, ErrorKind, Expression, Pretrained, Result};
use serde_json::Value;

use crate::vocabulary::document;

/// Elements of a tensor whose values a description may ask for.
const MAX_VALUES: u64 = 1 << 16;
/// Bytes of a text that a description may ask for: a model card has a few thousand.
const MAX_TEXT: u64 = 4 << 20;
/// Elements that are compared at once.
const CHUNK: u64 = 1 << 20;

/// A checkpoint as its architecture's description sees it.
pub(crate) struct Facts<'a> {
    checkpoint: &'a dyn Pretrained,
    /// Places of the tensors by the names that the description has for them.
    names: BTreeMap<String, usize>,
}

impl<'a> Facts<'a> {
    pub(crate) fn of(checkpoint: &'a dyn Pretrained, architecture: &Architecture) -> Self {
        let rules = architecture.name_rules(checkpoint.config());
        let name = |bytes: &[u8]| rules.renamed(&String::from_utf8_lossy(bytes));
        let tensors = checkpoint.tensors().iter().enumerate();
        let names = tensors.map(|(number, tensor)| (name(&tensor.name), number)).collect();
        Self { checkpoint, names }
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
        self.checkpoint.tensors().get(number).map(|tensor| tensor.shape)
    }

    fn values(&self, name: &str) -> Result<Vec<ParameterValue>, String> {
        let &number = self.names.get(name).ok_or("there is no such tensor")?;
        let elements = self.shape(name).map_or(0, |shape| shape.elements());
        if elements > MAX_VALUES {
            return Err(format!("{name} has {elements} elements, the limit is {MAX_VALUES}"));
        }
        let values = match self.checkpoint.tensors().get(number).map(|tensor| tensor.ggml_type) {
            Some(GgmlType::I64) => integers(self.checkpoint, number, elements, i64::from_le_bytes),
            Some(GgmlType::I32) => {
                let of_bytes = |bytes| i64::from(i32::from_le_bytes(bytes));
                integers(self.checkpoint, number, elements, of_bytes)
            }
            _ => floats(self.checkpoint, number, 0..elements).map(|values| {
                values.into_iter().map(f64::from).map(ParameterValue::Float).collect()
            }),
        };
        values.map_err(|error| error.to_string())
    }

    fn zero_rows(&self, name: &str) -> Result<Vec<u64>, String> {
        let &number = self.names.get(name).ok_or("there is no such tensor")?;
        let shape = self.checkpoint.tensors()[number].shape;
        let (width, mut rows) = (shape.row_len(), Vec::new());
        for row in 0..shape.elements().checked_div(width).unwrap_or(0) {
            let elements = row.saturating_mul(width)..row.saturating_add(1).saturating_mul(width);
            let values = floats(self.checkpoint, number, elements);
            if values.map_err(|error| error.to_string())?.iter().all(|&value| value == 0.0) {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn has_file(&self, name: &str) -> bool {
        self.checkpoint.side_files().has(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        let bytes = self.checkpoint.side_files().read(name, MAX_TEXT).ok()??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn token(&self, text: &str) -> Option<u64> {
        let tokenizer = document(self.checkpoint.side_files(), "tokenizer.json").ok()??;
        let added = tokenizer.get("added_tokens").and_then(Value::as_array);
        let added = added.into_iter().flatten().find(|token| token["content"] == text);
        let id = added
            .map_or_else(|| tokenizer.pointer("/model/vocab")?.get(text), |token| token.get("id"));
        id?.as_u64()
    }

    fn name(&self) -> Option<&str> {
        self.checkpoint.name()
    }
}

fn integers<const SIZE: usize>(
    checkpoint: &dyn Checkpoint,
    number: usize,
    elements: u64,
    of_bytes: impl Fn([u8; SIZE]) -> i64,
) -> Result<Vec<ParameterValue>> {
    let bytes = Expression::tensor(checkpoint, number)?.evaluate(checkpoint, 0..elements)?;
    let (numbers, _) = bytes.as_chunks();
    Ok(numbers.iter().map(|&number| ParameterValue::Int(of_bytes(number))).collect())
}

fn floats(
    checkpoint: &dyn Checkpoint,
    number: usize,
    elements: std::ops::Range<u64>,
) -> Result<Vec<f32>> {
    let tensor = Expression::tensor(checkpoint, number)?;
    let tensor = tensor.encode(GgmlType::F32, Encoding::new(None, false))?;
    let bytes = tensor.evaluate(checkpoint, elements)?;
    let (numbers, _) = bytes.as_chunks();
    Ok(numbers.iter().map(|&number| f32::from_le_bytes(number)).collect())
}

/// Whether two tensors of a checkpoint have the same shape and elements.
pub(crate) fn same_elements(checkpoint: &dyn Checkpoint, a: usize, b: usize) -> Result<bool> {
    let tensors = checkpoint.tensors();
    if tensors[a].shape != tensors[b].shape {
        return Ok(false);
    }
    chunks(tensors[a].shape.elements(), |elements| {
        Ok(floats(checkpoint, a, elements.clone())? == floats(checkpoint, b, elements)?)
    })
}

/// Fails for a tensor that has an element other than zero: the architecture has no place for it.
pub(crate) fn require_zeros(checkpoint: &dyn Checkpoint, number: usize) -> Result<()> {
    let tensor = &checkpoint.tensors()[number];
    let is_zero = chunks(tensor.shape.elements(), |elements| {
        Ok(floats(checkpoint, number, elements)?.iter().all(|&element| element == 0.0))
    })?;
    if is_zero {
        return Ok(());
    }
    let message = "expected zeros alone: the architecture has no such tensor";
    Err(Error::new(ErrorKind::Unsupported, message).tensor(&*String::from_utf8_lossy(&tensor.name)))
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

//! Facts about a checkpoint that descriptions use, other than its configuration: shapes and
//! elements of tensors, and side files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ggmill_arch::{Architecture, CheckpointFacts, ParameterValue};
use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Checkpoint, Encoding, Error, ErrorKind, Expression, Pretrained, Result};
use ggmill_tokenizer::tokenizer_json::TokenizerJson;
use serde_json::Value;

use crate::vocabulary::{builtin_template, document, parse, vocabulary};
use crate::weights::Weights;

/// Maximum size in bytes of a text file that a description may read. Model cards have a few
/// thousand bytes.
const MAX_TEXT: u64 = 4 << 20;

/// A checkpoint as seen by the description of its architecture.
pub(crate) struct Facts<'a> {
    weights: &'a Weights<'a>,
    /// Indices of the tensors by the names of the description.
    names: BTreeMap<String, usize>,
    /// Shapes of the tensors that only describe how others are packed.
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

/// Reads the JSON files that a description names and the checkpoint has.
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
            let values = weight_floats(self.weights, number, elements);
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
        const FILE: &str = "tokenizer.json";
        let bytes = vocabulary(self.weights.checkpoint().side_files(), FILE).ok()??;
        let tokenizer: TokenizerJson = parse(FILE, &bytes).ok()?;
        let added = tokenizer.added_tokens.iter().find(|listed| listed.token.content == text);
        let known = || tokenizer.model.vocab.tokens.iter().find(|(token, _)| token == text);
        added.map(|listed| listed.id).or_else(|| known().map(|(_, id)| *id)).map(u64::from)
    }

    fn name(&self) -> Option<&str> {
        self.weights.checkpoint().name()
    }

    fn chat_template(&self, name: &str) -> Option<&str> {
        builtin_template(name).ok()
    }
}

fn weight_floats(weights: &Weights<'_>, number: usize, elements: Range<u64>) -> Result<Vec<f32>> {
    floats(weights.checkpoint(), &weights.values(number)?, elements)
}

/// Returns `true` if two tensors of a checkpoint have the same shape and elements.
pub(crate) fn same_elements(weights: &Weights<'_>, a: usize, b: usize) -> Result<bool> {
    if weights.shape(a) != weights.shape(b) {
        return Ok(false);
    }
    all_chunks(weights.shape(a).elements(), |elements| {
        Ok(weight_floats(weights, a, elements.clone())? == weight_floats(weights, b, elements)?)
    })
}

/// Fails if a tensor has an element other than zero; the architecture does not have this tensor.
pub(crate) fn require_zeros(weights: &Weights<'_>, number: usize) -> Result<()> {
    let is_zero = all_chunks(weights.shape(number).elements(), |elements| {
        Ok(weight_floats(weights, number, elements)?.iter().all(|&element| element == 0.0))
    })?;
    if is_zero {
        return Ok(());
    }
    let message = "expected only zeros, as the architecture has no such tensor";
    Err(Error::new(ErrorKind::Unsupported, message).tensor(weights.name(number).as_bytes()))
}

/// Maximum number of elements of a tensor whose values a description may read.
const MAX_VALUES: u64 = 1 << 16;
/// Elements that are compared at once.
const CHUNK: u64 = 1 << 18;

/// Evaluates elements as F32, including NaN and infinity.
pub(crate) fn floats(
    checkpoint: &dyn Checkpoint,
    values: &Expression,
    elements: Range<u64>,
) -> Result<Vec<f32>> {
    let values = values.encode(GgmlType::F32, Encoding::default())?;
    let bytes = values.evaluate(checkpoint, elements)?;
    let (numbers, _) = bytes.as_chunks();
    Ok(numbers.iter().map(|&number| f32::from_le_bytes(number)).collect())
}

/// Returns all elements of a tensor with at most [`MAX_VALUES`] elements, as integers for the types
/// I32 and I64.
pub(crate) fn small(
    checkpoint: &dyn Checkpoint,
    name: &str,
    values: &Expression,
) -> Result<Vec<ParameterValue>, String> {
    let elements = values.shape().elements();
    if elements > MAX_VALUES {
        return Err(format!("{name} has {elements} elements, the limit is {MAX_VALUES}"));
    }
    let made = match values.ggml_type() {
        GgmlType::I64 => integers(checkpoint, values, i64::from_le_bytes),
        GgmlType::I32 => integers(checkpoint, values, |bytes| i64::from(i32::from_le_bytes(bytes))),
        _ => floats(checkpoint, values, 0..elements)
            .map(|numbers| numbers.into_iter().map(f64::from).map(ParameterValue::Float).collect()),
    };
    made.map_err(|error| error.to_string())
}

fn integers<const SIZE: usize>(
    checkpoint: &dyn Checkpoint,
    values: &Expression,
    of_bytes: impl Fn([u8; SIZE]) -> i64,
) -> Result<Vec<ParameterValue>> {
    let bytes = values.evaluate(checkpoint, 0..values.shape().elements())?;
    let (numbers, _) = bytes.as_chunks();
    Ok(numbers.iter().map(|&number| ParameterValue::Int(of_bytes(number))).collect())
}

/// Returns `true` if `holds` returns `true` for every chunk of [`CHUNK`] elements.
pub(crate) fn all_chunks(
    elements: u64,
    mut holds: impl FnMut(Range<u64>) -> Result<bool>,
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

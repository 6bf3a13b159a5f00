//! Rows of a file from its header.

use std::fmt::Write as _;

use ggmill_core::{Array, Model, RawStr, Split, Value};
use ggmill_text::LosslessStr;

use super::Candidate;
use super::table::{Cell, FILES, Row};
use crate::{PerBlock, Summary};

/// Bytes of a text in a cell, at most. Longer texts are cut; the column `length` has the length of the
/// whole.
pub const MAX_TEXT: usize = 64 << 10;
/// Elements of an array in the metadata table, at most.
pub const MAX_ELEMENTS: usize = 8;

/// The rows of a file in all tables.
#[derive(Debug)]
pub(super) struct FileRows {
    pub(super) path: String,
    pub(super) file: Row,
    pub(super) tensors: Vec<Row>,
    pub(super) entries: Vec<Row>,
}

impl FileRows {
    /// Returns the rows of a model.
    pub(super) fn of(candidate: &Candidate, model: &Model) -> Self {
        let tensors: Vec<Row> = tensor_rows(model).collect();
        let entries: Vec<Row> = entry_rows(model).collect();
        let file = file_row(candidate, model, tensors.len(), entries.len());
        Self { path: candidate.path.clone(), file, tensors, entries }
    }

    /// Returns the row of a file that could not be opened.
    pub(super) fn broken(candidate: &Candidate, error: &str) -> Self {
        let mut file = vec![
            Cell::integer(candidate.size),
            candidate.modified.map_or(Cell::Null, Cell::Integer),
            Cell::Text(text_of(RawStr::from(error))),
            Cell::Integer(0),
            Cell::Integer(0),
        ];
        file.resize(FILES.columns.len() - 1, Cell::Null);
        Self { path: candidate.path.clone(), file, tensors: Vec::new(), entries: Vec::new() }
    }

    /// Returns the error of the file, if it could not be read in full.
    pub(super) fn error(&self) -> Option<&str> {
        match self.file.get(2) {
            Some(Cell::Text(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        let of_row =
            |row: &Row| row.iter().map(Cell::weight).fold(size_of::<Row>(), usize::saturating_add);
        std::iter::once(&self.file)
            .chain(&self.tensors)
            .chain(&self.entries)
            .map(of_row)
            .fold(self.path.len(), usize::saturating_add)
    }
}

fn file_row(candidate: &Candidate, model: &Model, tensors: usize, entries: usize) -> Row {
    let summary = Summary::of(model);
    let header = model.header();
    let text =
        |text: Option<LosslessStr<'_>>| text.map_or(Cell::Null, |text| Cell::Text(text_of(text.0)));
    let same = |number: Option<PerBlock>| match number {
        Some(PerBlock::Same(number)) => Cell::integer(Some(number)),
        _ => Cell::Null,
    };
    let error = model.faults().next().map(ToString::to_string);
    let split = Split::of(&model.metadata()).ok().flatten().filter(Split::is_part);
    vec![
        Cell::integer(candidate.size.or(model.file_len())),
        candidate.modified.map_or(Cell::Null, Cell::Integer),
        error.map_or(Cell::Null, |error| Cell::Text(text_of(RawStr::from(&*error)))),
        Cell::integer(Some(tensors)),
        Cell::integer(Some(entries)),
        Cell::integer(Some(header.version())),
        Cell::Text(header.endian().to_string()),
        Cell::integer(Some(header.alignment().get())),
        Cell::integer(Some(header.data_offset())),
        Cell::integer(Some(summary.parameters)),
        Cell::integer(Some(summary.tensor_bytes)),
        summary.bits_per_weight.map_or(Cell::Null, Cell::Float),
        text(summary.architecture),
        text(summary.name),
        text(summary.kind),
        text(summary.license),
        summary.file_type.map_or(Cell::Null, |file_type| Cell::Text(file_type.to_string())),
        Cell::integer(summary.quantization_version),
        Cell::integer(summary.context_length),
        Cell::integer(summary.embedding_length),
        Cell::integer(summary.block_count),
        same(summary.feed_forward_length),
        same(summary.head_count),
        same(summary.head_count_kv),
        Cell::integer(summary.expert_count),
        Cell::integer(summary.expert_used_count),
        text(summary.tokenizer_model),
        text(summary.tokenizer_pre),
        Cell::integer(summary.vocabulary_size),
        Cell::integer(summary.chat_template_bytes),
        Cell::integer(split.map(|split| split.number.saturating_add(1))),
        Cell::integer(split.map(|split| split.count)),
    ]
}

fn tensor_rows(model: &Model) -> impl Iterator<Item = Row> {
    model.tensors().iter().zip(0i64..).map(|(tensor, position)| {
        // The parser limits the product of the dimensions, so that each fits.
        let dimensions = tensor.shape().dimensions().iter();
        let dimensions = dimensions.map(|&size| i64::try_from(size).unwrap_or(i64::MAX));
        vec![
            Cell::Integer(position),
            Cell::Text(text_of(tensor.name())),
            Cell::Text(tensor.ggml_type().to_string()),
            Cell::Integers(dimensions.collect()),
            Cell::integer(Some(tensor.shape().elements())),
            Cell::integer(tensor.size()),
            Cell::integer(Some(tensor.offset())),
        ]
    })
}

fn entry_rows(model: &Model) -> impl Iterator<Item = Row> {
    model.metadata().iter().zip(0i64..).map(|(entry, position)| {
        let mut row = vec![
            Cell::Integer(position),
            Cell::Text(text_of(entry.key())),
            Cell::Text(entry.value_type().name().unwrap_or("unknown").to_owned()),
        ];
        match entry.value() {
            Ok(value) => row.extend(value_cells(&value)),
            // The file changed after its header was parsed.
            Err(_) => row.extend([const { Cell::Null }; 5]),
        }
        row
    })
}

/// Returns the cells `element_type`, `length`, `value`, `integer` and `float` of a metadata value.
fn value_cells(value: &Value<'_>) -> [Cell; 5] {
    let (mut element_type, mut length) = (Cell::Null, Cell::Null);
    let text = match value {
        Value::Str(text) => {
            length = Cell::integer(Some(text.len()));
            text_of(*text)
        }
        Value::Array(array) => {
            element_type = Cell::Text(array.element_type().name().unwrap_or("unknown").to_owned());
            length = Cell::integer(Some(array.len()));
            let mut text = String::new();
            push_array(&mut text, *array);
            text
        }
        Value::F32(float) if !float.is_finite() => non_finite(f64::from(*float)).to_owned(),
        Value::F64(float) if !float.is_finite() => non_finite(*float).to_owned(),
        _ => {
            let mut text = String::new();
            push_json(&mut text, value);
            text
        }
    };
    let integer = Cell::integer(value.as_i64());
    // One NaN, so that an updated index equals a new one: the state has no NaN payloads.
    let float = value.as_f64().map(|float| if float.is_nan() { f64::NAN } else { float });
    let float = float.map_or(Cell::Null, Cell::Float);
    [element_type, length, Cell::Text(text), integer, float]
}

/// Returns the text of a NaN or an infinity.
fn non_finite(float: f64) -> &'static str {
    match float {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

/// Appends the first elements as a JSON array, at most [`MAX_ELEMENTS`] and until [`MAX_TEXT`].
fn push_array(out: &mut String, array: Array<'_>) {
    out.push('[');
    for (number, element) in array.iter().take(MAX_ELEMENTS).enumerate() {
        let Ok(element) = element else { break };
        if out.len() > MAX_TEXT {
            break;
        }
        if number > 0 {
            out.push(',');
        }
        push_json(out, &element);
    }
    out.push(']');
}

/// Appends a value as JSON.
fn push_json(out: &mut String, value: &Value<'_>) {
    let mut push = |value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{value}");
    };
    match value {
        Value::Str(text) => out.push_str(&json_text(*text)),
        Value::Array(array) => push_array(out, *array),
        Value::F32(float) if float.is_finite() => push(float),
        Value::F64(float) if float.is_finite() => push(float),
        Value::F32(float) => push(&format_args!("\"{}\"", non_finite(f64::from(*float)))),
        Value::F64(float) => push(&format_args!("\"{}\"", non_finite(*float))),
        Value::Bool(value) => push(value),
        _ => match value.as_i128() {
            Some(integer) => push(&integer),
            None => push(&"null"),
        },
    }
}

fn json_text(text: RawStr<'_>) -> String {
    // A string can always be serialized.
    ggmill_text::json::to_string(&text_of(text)).unwrap_or_else(|_| "null".to_owned())
}

/// Returns the text of a cell: UTF-8 unchanged, other bytes escaped, cut after [`MAX_TEXT`] bytes.
fn text_of(text: RawStr<'_>) -> String {
    let bytes = text.as_bytes();
    let kept = RawStr::new(bytes.get(..MAX_TEXT).unwrap_or(bytes));
    match kept.to_str() {
        Ok(text) => text.to_owned(),
        // The cut can split a character.
        Err(error) if error.error_len().is_none() && bytes.len() > MAX_TEXT => {
            let whole = kept.as_bytes().get(..error.valid_up_to()).unwrap_or_default();
            RawStr::new(whole).to_string_lossy().into_owned()
        }
        Err(_) => kept.to_string(),
    }
}

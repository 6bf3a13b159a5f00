//! The rows of a file.

use crate::{PerBlock, Summary};
use ggmill_core::{Model, RawStr, Split};
use ggmill_text::LosslessStr;

use crate::index::candidate::Candidate;
use crate::index::table::{Cell, FILES, Row};
use crate::index::text::text_of;
use crate::index::value_cells::value_cells;

/// The rows of a file, in all tables.
#[derive(Debug)]
pub(crate) struct FileRows {
    pub(crate) path: String,
    pub(crate) file: Row,
    pub(crate) tensors: Vec<Row>,
    pub(crate) entries: Vec<Row>,
}

impl FileRows {
    /// Of a file with this content.
    pub(crate) fn of(candidate: &Candidate, model: &Model) -> Self {
        let tensors: Vec<Row> = tensor_rows(model).collect();
        let entries: Vec<Row> = entry_rows(model).collect();
        let file = file_row(candidate, model, tensors.len(), entries.len());
        Self { path: candidate.path.clone(), file, tensors, entries }
    }

    /// Of a file that could not be read, for this reason.
    pub(crate) fn broken(candidate: &Candidate, error: &str) -> Self {
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

    /// Why the file could not be read in full, where that is so.
    pub(crate) fn error(&self) -> Option<&str> {
        match self.file.get(2) {
            Some(Cell::Text(error)) => Some(error),
            _ => None,
        }
    }

    /// Bytes that they take in memory, about.
    pub(crate) fn weight(&self) -> usize {
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
    let index = model.index();
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
        Cell::integer(Some(index.version())),
        Cell::Text(index.endian().to_string()),
        Cell::integer(Some(index.alignment().get())),
        Cell::integer(Some(index.data_offset())),
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
        // A dimension that does not fit would be of more elements than there are.
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
            // The file changed meanwhile.
            Err(_) => row.extend([const { Cell::Null }; 5]),
        }
        row
    })
}

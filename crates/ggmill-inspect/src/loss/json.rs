//! The report as JSON: the schema `ggmill.loss/1`, described in `docs/formats/loss.md`.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use super::{LossReport, Row};
use ggmill_text::LosslessStr;

/// The name of the schema. Its number changes with incompatible changes.
pub const SCHEMA: &str = "ggmill.loss/1";

/// Writes one JSON object, with each tensor on its own line. Fails if `out` fails.
pub fn write(out: &mut dyn Write, report: &LossReport<'_>) -> io::Result<()> {
    Document(report).serialize(&mut serde_json::Serializer::with_formatter(
        &mut *out,
        crate::json::Lines::new(),
    ))?;
    out.write_all(b"\n")
}

struct Document<'a>(&'a LossReport<'a>);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("schema", SCHEMA)?;
        object.serialize_entry("output", report.output)?;
        object.serialize_entry("input", &report.input)?;
        object.serialize_entry("imatrix", &report.imatrix)?;
        object.serialize_entry("program", &report.program)?;
        object.serialize_entry("weighted", &report.is_weighted())?;
        object.serialize_entry("weights", &report.weights())?;
        object.serialize_entry("size", &report.size())?;
        object.serialize_entry("bits_per_weight", &report.bits_per_weight())?;
        object.serialize_entry("relative", &report.relative())?;
        let rows: Vec<Tensor<'_>> = report.rows().iter().map(|row| Tensor(report, row)).collect();
        object.serialize_entry("tensors", &rows)?;
        object.end()
    }
}

struct Tensor<'a>(&'a LossReport<'a>, &'a Row<'a>);

impl Serialize for Tensor<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report, row) = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("name", &LosslessStr(row.name))?;
        object.serialize_entry("from", &format_args!("{}", row.from))?;
        object.serialize_entry("to", &format_args!("{}", row.to))?;
        object.serialize_entry("shape", row.shape.dimensions())?;
        object.serialize_entry("size", &row.size)?;
        object.serialize_entry("bits_per_weight", &row.bits())?;
        object.serialize_entry("rmse", &row.rmse)?;
        object.serialize_entry("weighted_rmse", &row.weighted_rmse)?;
        object.serialize_entry("relative", &row.relative)?;
        object.serialize_entry("share", &report.share(row))?;
        if let Some([plain, written]) = row.results {
            object.serialize_entry("plain_results", &plain)?;
            object.serialize_entry("results", &written)?;
        }
        object.end()
    }
}

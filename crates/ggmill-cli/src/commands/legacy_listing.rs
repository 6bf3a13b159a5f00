//! `ggmill inspect` of legacy files.

use std::io::Write as _;
use std::path::Path;

use ggmill_core::RawStr;
use ggmill_pipeline::Checkpoint as _;
use ggmill_pipeline::formats::Legacy;
use serde_json::json;

use crate::console::Console;
use crate::counted::counted;
use crate::outcome::{Failure, Status};
use crate::paths::shown;

/// Prints the content of a legacy file.
pub(super) fn show(path: &Path, as_json: bool, console: Console) -> Result<Status, Failure> {
    let legacy = Legacy::open(path).map_err(Failure::new)?;
    let tensors = || {
        legacy.tensors().iter().enumerate().map(|(number, tensor)| {
            (tensor, legacy.place(number).unwrap_or_default(), legacy.block_note(number))
        })
    };
    if as_json {
        let tensors: Vec<_> = tensors()
            .map(|(tensor, (offset, size), note)| {
                json!({
                    "name": tensor.name().to_string_lossy(), "type": tensor.ggml_type.to_string(), "shape": tensor.shape.dimensions(),
                    "offset": offset, "size": size, "blocks": note,
                })
            })
            .collect();
        let parameters: serde_json::Map<_, _> = legacy
            .parameters()
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let document = json!({
            "schema": "ggmill.legacy/1", "container": legacy.container().to_string(), "family": legacy.family().to_string(),
            "parameters": parameters, "vocabulary": legacy.vocabulary().len(), "tensors": tensors,
        });
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &document)?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let mut out = console.text();
    writeln!(
        out,
        "{}\n  {} of {}, legacy format",
        shown(path),
        legacy.container(),
        legacy.family()
    )?;
    for (name, value) in legacy.parameters() {
        writeln!(out, "  {name:<14} {value}")?;
    }
    if legacy.vocabulary().len() > 0 {
        let some: Vec<String> = legacy
            .vocabulary()
            .skip(259)
            .take(5)
            .map(|(token, _)| format!("{:?}", RawStr::new(token)))
            .collect();
        let some =
            if some.is_empty() { String::new() } else { format!(": … {} …", some.join(" ")) };
        let tokens = counted(legacy.vocabulary().len(), "token");
        writeln!(out, "  {:<14} {tokens}{some}", "vocabulary")?;
    }
    writeln!(out, "\nTensors · {}", legacy.tensors().len())?;
    let width = legacy
        .tensors()
        .iter()
        .map(|tensor| tensor.name().to_string().chars().count())
        .max()
        .unwrap_or(0);
    for (tensor, (offset, size), note) in tensors() {
        let note = note.map(|note| format!("  ({note})")).unwrap_or_default();
        writeln!(
            out,
            "  {:<width$}  {:<14} {:<5} {size:>12} bytes at {offset:#x}{note}",
            tensor.name().to_string(),
            tensor.shape.to_string(),
            tensor.ggml_type
        )?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

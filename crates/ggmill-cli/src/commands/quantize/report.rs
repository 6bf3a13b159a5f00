//! The reports of `ggmill quantize`: the quantization error of each tensor (`--report`), and the sizes
//! of several types (`--compare`).

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill::{Compared, Model, Quantize, Quantized, RoundedTensor};
use ggmill_core::RawStr;
use ggmill_inspect::loss::{self, LossReport, Row};
use ggmill_inspect::text::{self, Candidate};
use ggmill_quantize::{Target, TensorLoss};
use serde_json::json;

use super::Args;
use crate::console::Console;
use crate::files::{check_output, file_name, shown, write_file};
use crate::outcome::{Failure, Status};
use crate::progress::Bars;

/// A report of the quantization error, which is written when the work is done.
#[derive(Debug)]
pub(super) struct Report {
    /// The file to write; `None` for standard output.
    path: Option<PathBuf>,
    /// The input files, which the report must not overwrite.
    inputs: Vec<PathBuf>,
    force: bool,
    format: Format,
    /// The file name of the model.
    input: String,
    /// The file name of the importance matrix.
    imatrix: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Text,
    Json,
    Html,
}

impl Report {
    /// Returns the report to write to `path`. Fails early if that cannot be written.
    pub(super) fn new(
        path: &Path,
        args: &Args,
        input: &Path,
        output: &Path,
        inputs: Vec<PathBuf>,
    ) -> Result<Self, Failure> {
        let is_printed = path.as_os_str() == "-";
        if is_printed && args.json {
            return Err(Failure::new("--json and --report - would both write to standard output"));
        }
        if path == output {
            return Err(Failure::new(format_args!(
                "{}: is the output, so it cannot also be the report",
                shown(path)
            )));
        }
        if !is_printed {
            check_output(path, &inputs, args.force)?;
        }
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("html" | "htm") => Format::Html,
            Some("json") => Format::Json,
            _ => Format::Text,
        };
        Ok(Self {
            path: (!is_printed).then(|| path.to_owned()),
            inputs,
            force: args.force,
            format,
            input: file_name(input),
            imatrix: args.types.imatrix.as_deref().map(file_name),
        })
    }

    /// Measures the quantization error of what was written, and writes the report.
    pub(super) fn write(
        self,
        quantized: &mut Quantized<'_>,
        bars: &Bars,
        console: Console,
    ) -> Result<(), Failure> {
        let losses = quantized.losses()?;
        bars.clear();
        let Some(first) = quantized.paths().first() else { return Ok(()) };
        let name = first.file_name().unwrap_or_default().to_string_lossy();
        let rows = losses.tensors.iter().map(|loss| row(loss, quantized.rounded())).collect();
        let mut report = LossReport::new(&name, rows)
            .with_input(&self.input)
            .with_program(concat!("ggmill ", env!("CARGO_PKG_VERSION")));
        if let Some(imatrix) = &self.imatrix {
            report = report.with_imatrix(imatrix);
        }
        let Some(path) = &self.path else {
            let mut out = console.text();
            loss::text::write(
                &mut out,
                &report,
                &text::Options::default()
                    .with_width(console.width())
                    .with_styled(console.is_styled()),
            )?;
            return Ok(out.flush()?);
        };
        let mut bytes = Vec::new();
        match self.format {
            Format::Text => {
                let plain = text::Options::default().with_width(None).with_styled(false);
                loss::text::write(&mut bytes, &report, &plain)?;
            }
            Format::Json => loss::json::write(&mut bytes, &report)?,
            Format::Html => loss::html::write(&mut bytes, &report)?,
        }
        write_file(path, &self.inputs, self.force, &bytes)?;
        console.note(format_args!("wrote {}", shown(path)));
        Ok(())
    }
}

fn row<'a>(loss: &'a TensorLoss, rounded: &[RoundedTensor]) -> Row<'a> {
    let &TensorLoss { from, to, size, rmse, weighted_rmse, relative, .. } = loss;
    Row {
        name: RawStr::new(&loss.name),
        from,
        to,
        shape: &loss.shape,
        size,
        rmse,
        weighted_rmse,
        relative,
        results: rounded
            .iter()
            .find(|tensor| tensor.name.as_bytes() == loss.name)
            .map(|tensor| [tensor.plain_error, tensor.error]),
    }
}

/// Runs `--compare`: plans each type as a dry run does, and prints a table, or JSON
/// (`docs/formats/plan.md`).
pub(super) fn compare(
    targets: &[Target],
    builder: Quantize<'_>,
    model: &Model,
    as_json: bool,
    console: Console,
) -> Result<Status, Failure> {
    let names: Vec<&str> = targets.iter().map(|target| target.name()).collect();
    let Compared { candidates, notes, .. } = builder.compare(&names)?;
    if as_json {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &comparison(&candidates, &notes))?;
        out.flush()?;
    } else {
        let options =
            text::Options::default().with_width(console.width()).with_styled(console.is_styled());
        let mut out = console.text();
        text::write_comparison(&mut out, &candidates, model.core().file_len(), &options)?;
        out.flush()?;
    }
    for (note, of) in notes {
        console.note(format_args!("{}: {note}", of.join(", ")));
    }
    Ok(Status::Fine)
}

fn comparison(
    candidates: &[Candidate],
    notes: &[(String, Vec<&'static str>)],
) -> serde_json::Value {
    let candidates: Vec<_> = candidates
        .iter()
        .map(|candidate| {
            let types: serde_json::Map<_, _> = candidate
                .types
                .iter()
                .map(|used| (used.ggml_type.to_string(), json!(used)))
                .collect();
            json!({
                "type": candidate.name,
                "file_size": candidate.file_len,
                "bits_per_weight": ggmill_inspect::TypeUse::bits_per_weight(&candidate.types),
                "types": types,
                "refused": candidate.remark,
                "notes": notes
                    .iter()
                    .filter(|(_, of)| of.contains(&&*candidate.name))
                    .map(|(note, _)| note)
                    .collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "schema": "ggmill.compare/1", "candidates": candidates })
}

//! The report of what was lost: where it goes and in which form.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{RawStr, Sink as _};
use ggmill_inspect::loss::{LossReport, Row, html, json, text};
use ggmill_io::FileSink;
use ggmill_pipeline::{GgufCheckpoint, Plan, RunOptions};
use ggmill_quantize::{Importance, TensorLoss};

use super::Args;
use crate::console::Console;
use crate::outcome::Failure;
use crate::outputs::start;
use crate::paths::{file_name, shown};
use crate::progress::Bar;

/// A report to be written when the work is done. Its file is begun before, so that an output that
/// cannot be written fails early.
#[derive(Debug)]
pub(super) struct Report {
    /// `None` for standard output.
    file: Option<FileSink>,
    form: Form,
    /// The files that were quantized and that weights came from, by the last part of their paths.
    input: String,
    imatrix: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Text,
    Json,
    Html,
}

impl Report {
    pub(super) fn start(
        path: &Path,
        args: &Args,
        input: &Path,
        output: &Path,
        inputs: &[PathBuf],
    ) -> Result<Self, Failure> {
        let (input, imatrix) = (file_name(input), args.types.imatrix.as_deref().map(file_name));
        if path.as_os_str() == "-" {
            if args.json {
                return Err(Failure::new(
                    "--json and --report - would both write to standard output",
                ));
            }
            return Ok(Self { file: None, form: Form::Text, input, imatrix });
        }
        if path == output {
            return Err(Failure::new(format_args!(
                "{}: is the output, so it cannot also be the report",
                shown(path)
            )));
        }
        let form = match path.extension().and_then(|ending| ending.to_str()) {
            Some("html" | "htm") => Form::Html,
            Some("json") => Form::Json,
            _ => Form::Text,
        };
        Ok(Self { file: Some(start(path, inputs, args.force, 0)?), form, input, imatrix })
    }

    /// Measures what was lost by holding what was written against what it was made of, and writes
    /// it down.
    pub(super) fn write(
        self,
        checkpoint: &GgufCheckpoint,
        made: &[(PathBuf, Plan)],
        importance: Option<&Importance>,
        console: Console,
    ) -> Result<(), Failure> {
        let Some((first, _)) = made.first() else { return Ok(()) };
        let written = GgufCheckpoint::open(first).map_err(Failure::new)?;
        let plans: Vec<&Plan> = made.iter().map(|(_, plan)| plan).collect();
        let (mut bar, options) = (Bar::new(console), RunOptions::default());
        let losses = ggmill_quantize::loss(
            &plans,
            checkpoint,
            &written,
            importance,
            &options,
            &mut |progress| {
                bar.update(progress.written, progress.total, progress.tensor);
                ControlFlow::Continue(())
            },
        );
        drop(bar);
        let losses = losses.map_err(Failure::new)?;
        let name = first.file_name().unwrap_or_default().to_string_lossy();
        tell_of_unmeasured(&losses.unmeasured, console);
        let mut report = LossReport::new(&name, losses.tensors.iter().map(row).collect())
            .with_input(&self.input)
            .with_program(concat!("ggmill ", env!("CARGO_PKG_VERSION")));
        if let Some(imatrix) = &self.imatrix {
            report = report.with_imatrix(imatrix);
        }
        let Some(mut file) = self.file else {
            let mut out = console.text();
            text::write(
                &mut out,
                &report,
                &ggmill_inspect::text::Options::default()
                    .with_width(console.width())
                    .with_styled(console.is_styled()),
            )?;
            return Ok(out.flush()?);
        };
        let mut bytes = Vec::new();
        match self.form {
            Form::Text => {
                let plain =
                    ggmill_inspect::text::Options::default().with_width(None).with_styled(false);
                text::write(&mut bytes, &report, &plain)?;
            }
            Form::Json => json::write(&mut bytes, &report)?,
            Form::Html => html::write(&mut bytes, &report)?,
        }
        file.append(&bytes).map_err(Failure::new)?;
        let path = file.path().to_owned();
        file.commit().map_err(Failure::new)?;
        console.note(format_args!("wrote {}", shown(&path)));
        Ok(())
    }
}

/// Says which tensors the report leaves out.
fn tell_of_unmeasured(names: &[Vec<u8>], console: Console) {
    const NAMED: usize = 3;
    let first: Vec<String> =
        names.iter().take(NAMED).map(|name| RawStr::new(name).to_string()).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if !first.is_empty() {
        console.note(format_args!(
            "not in the report, because they are not made from a single tensor: {}{more}",
            first.join(", ")
        ));
    }
}

fn row(loss: &TensorLoss) -> Row<'_> {
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
    }
}

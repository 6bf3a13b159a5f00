//! The report of what was lost: where it goes and in which form.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill::Quantized;
use ggmill_core::{RawStr, Sink as _};
use ggmill_inspect::loss::{LossReport, Row, html, json, text};
use ggmill_io::FileSink;
use ggmill_quantize::TensorLoss;

use super::Args;
use crate::console::Console;
use crate::outcome::Failure;
use crate::outputs::start;
use crate::paths::{file_name, shown};
use crate::progress::Bars;

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

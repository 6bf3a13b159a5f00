//! What every command that makes a model does with its plan: print it, or write the file and say so.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{PlannedTensor, RawStr, Sink as _};
use ggmill_io::{FileSink, Overwrite};
use ggmill_pipeline::{Checkpoint, GgufCheckpoint, Plan, RunOptions};
use ggmill_text::LosslessStr;

use crate::commands::inspect;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::progress::Bar;

/// What is to become of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Making<'a> {
    pub(crate) output: &'a Path,
    /// The files that are read, none of which is written over.
    pub(crate) inputs: &'a [PathBuf],
    /// Whether a file that is there is replaced.
    pub(crate) force: bool,
    /// Whether the plan is printed and nothing is written.
    pub(crate) dry_run: bool,
    /// Whether the plan is printed as JSON instead of a summary.
    pub(crate) json: bool,
}

impl Making<'_> {
    pub(crate) fn run(self, plan: &Plan, checkpoint: &dyn Checkpoint, console: Console) -> Result<Status, Failure> {
        self.run_then(plan, checkpoint, console, || Ok(()))
    }

    /// The same, with something to do between the file's being there and the words about it, to which nobody need listen to the end.
    pub(crate) fn run_then(
        self,
        plan: &Plan,
        checkpoint: &dyn Checkpoint,
        console: Console,
        then: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Status, Failure> {
        let Self { output, inputs, force, dry_run, json } = self;
        refuse_inputs(output, inputs)?;
        if dry_run {
            let mut out = console.text();
            if json {
                print_json(&mut out, plan, output, false)?;
            } else {
                print_table(&mut out, plan, output)?;
            }
            out.flush()?;
            tell_of_existing(output, force, console);
            return Ok(tell(plan, console));
        }
        let sink = start(output, inputs, force, plan.layout().total_len())?;
        let mut bar = Bar::new(console);
        let sink = ggmill_pipeline::run(plan, checkpoint, sink, &RunOptions::default(), &mut |progress| {
            bar.update(progress.written, progress.total, progress.tensor);
            ControlFlow::Continue(())
        })
        .map_err(Failure::new)?;
        sink.commit().map_err(Failure::new)?;
        drop(bar);
        then()?;

        if json {
            let mut out = console.bytes();
            print_json(&mut out, plan, output, true)?;
            out.flush()?;
            return Ok(tell(plan, console));
        }
        console.note(format_args!("wrote {}", shown(output)));
        tell(plan, console);
        inspect::summarize(output, console)
    }
}

/// What a dry run says of an output that is there.
pub(crate) fn tell_of_existing(output: &Path, force: bool, console: Console) {
    if !force && output.exists() {
        console.note(format_args!("{}: exists already, so a run would be refused without --force", shown(output)));
    }
}

/// Starts an output of so many bytes. It is the one way to a new file, and never leads over an input.
pub(crate) fn start(output: &Path, inputs: &[PathBuf], force: bool, len: u64) -> Result<FileSink, Failure> {
    refuse_inputs(output, inputs)?;
    let overwrite = if force { Overwrite::Replace } else { Overwrite::Refuse };
    let mut sink = FileSink::create(output, overwrite).map_err(|error| {
        let exists = error.kind() == ggmill_io::ErrorKind::Exists;
        Failure::new(error).with_hint(exists.then(|| "--force replaces it".to_owned()))
    })?;
    sink.reserve(len).map_err(Failure::new)?;
    Ok(sink)
}

/// Writes a file that is whole in memory.
pub(crate) fn write_file(output: &Path, inputs: &[PathBuf], force: bool, bytes: &[u8]) -> Result<(), Failure> {
    let mut sink = start(output, inputs, force, bytes.len() as u64)?;
    sink.append(bytes).map_err(Failure::new)?;
    sink.commit().map_err(Failure::new)
}

/// Refuses an output that is one of the files it is made of, under whatever name, and one that is no file.
pub(crate) fn refuse_inputs(output: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    if output.as_os_str() == "-" {
        let hint = Some("./- is a file of this name".to_owned());
        return Err(Failure::new("-: a model is written to a file, not to standard output").with_hint(hint));
    }
    for input in inputs {
        if ggmill_io::same_file(input, output).map_err(Failure::new)? {
            return Err(Failure::new(format_args!("{}: is read from, and cannot be the output", shown(output))));
        }
    }
    Ok(())
}

/// The files of a model, none of which may be left halfway by an edit.
pub(crate) fn inputs_of(checkpoint: &GgufCheckpoint) -> Result<Vec<PathBuf>, Failure> {
    let inputs: Vec<PathBuf> = ggmill_io::files(checkpoint.model()).map(|file| file.path().to_owned()).collect();
    refuse_interrupted(&inputs)?;
    Ok(inputs)
}

/// Refuses files that an interrupted edit has left halfway.
pub(crate) fn refuse_interrupted(inputs: &[impl AsRef<Path>]) -> Result<(), Failure> {
    for input in inputs.iter().map(AsRef::as_ref) {
        if ggmill_io::pending_journal(input).is_some() {
            let hint = Some("`ggmill edit --recover FILE` finishes or undoes it".to_owned());
            return Err(Failure::new(format_args!("{}: an edit of it was interrupted", shown(input))).with_hint(hint));
        }
    }
    Ok(())
}

/// What a person should know of the choices made.
pub(crate) fn tell(plan: &Plan, console: Console) -> Status {
    for note in plan.notes() {
        console.note(note);
    }
    Status::Fine
}

/// The plan as a table: what would stand where.
fn print_table(out: &mut dyn Write, plan: &Plan, output: &Path) -> io::Result<()> {
    let layout = plan.layout();
    let names: Vec<String> = layout.tensors().iter().map(|tensor| tensor.name().to_string()).collect();
    let shapes: Vec<String> = layout.tensors().iter().map(|tensor| tensor.shape().to_string()).collect();
    let widest = |column: &[String]| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (name_width, shape_width) = (widest(&names), widest(&shapes));
    for ((tensor, name), shape) in layout.tensors().iter().zip(&names).zip(&shapes) {
        writeln!(out, "{name:<name_width$}  {shape:<shape_width$}  {:<5}  {:>14} bytes at {:#x}", tensor.ggml_type(), tensor.size(), tensor.offset())?;
    }
    let (tensors, data, total) = (layout.tensors().len(), layout.data_offset(), layout.total_len());
    writeln!(out, "{}: {tensors} tensors, data from {data:#x}, {total} bytes in all; nothing was written", shown(output))
}

/// The plan as JSON (`docs/formats/plan.md`).
fn print_json(out: &mut dyn Write, plan: &Plan, output: &Path, written: bool) -> io::Result<()> {
    ggmill_text::json::write_pretty(out, &plan_as_json(plan, output, written))
}

pub(crate) fn plan_as_json(plan: &Plan, output: &Path, written: bool) -> serde_json::Value {
    let layout = plan.layout();
    let tensor = |tensor: &PlannedTensor| {
        serde_json::json!({
            "name": LosslessStr(tensor.name()),
            "type": tensor.ggml_type().to_string(),
            "shape": tensor.shape().dimensions(),
            "offset": tensor.offset(),
            "size": tensor.size(),
        })
    };
    serde_json::json!({
        "schema": "ggmill.plan/1",
        "output": LosslessStr(shown(output)),
        "written": written,
        "file_size": layout.total_len(),
        "data_offset": layout.data_offset(),
        "alignment": layout.alignment().get(),
        "notes": plan.notes(),
        "tensors": layout.tensors().iter().map(tensor).collect::<Vec<_>>(),
    })
}

/// A path fit to be shown.
pub(crate) fn shown(path: &Path) -> RawStr<'_> {
    RawStr::new(path.as_os_str().as_encoded_bytes())
}

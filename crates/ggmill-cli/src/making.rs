//! Common to every command that makes a model: its plan is printed, or the file written and
//! reported.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_inspect::{TypeUse, text};
use ggmill_pipeline::{Checkpoint, Plan, RunOptions, plan_document};

use crate::commands::inspect;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, refuse_inputs};
use crate::paths::shown;
use crate::progress::{Bar, TensorNumbers};

/// Whether a plan is printed or carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Making<'a> {
    pub(crate) output: Output<'a>,
    /// The files that are read, none of which is written over.
    pub(crate) inputs: &'a [PathBuf],
    /// Whether the plan is printed as JSON instead of a summary.
    pub(crate) json: bool,
}

impl Making<'_> {
    pub(crate) fn run(
        self,
        plan: &Plan,
        checkpoint: &dyn Checkpoint,
        console: Console,
    ) -> Result<Status, Failure> {
        self.run_then(plan, checkpoint, console, || Ok(()))
    }

    /// The same, with something to do between the file's being there and the words about it, whose
    /// reader may stop early.
    pub(crate) fn run_then(
        self,
        plan: &Plan,
        checkpoint: &dyn Checkpoint,
        console: Console,
        then: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Status, Failure> {
        let Self { output, inputs, json } = self;
        let path = output.path();
        refuse_inputs(path, inputs)?;
        let len = plan.layout().total_len();
        if output.is_dry_run() {
            let mut out = console.text();
            if json {
                print_json(&mut out, plan, path, false)?;
            } else {
                print_table(&mut out, plan, path)?;
                writeln!(out)?;
                let options = text::Options::default()
                    .with_width(console.width())
                    .with_styled(console.is_styled());
                text::write_size(&mut out, len, &type_uses(plan), &options)?;
            }
            out.flush()?;
            tell(plan, console);
            return output.end_dry_run(inputs, len).map(|()| Status::Fine);
        }
        let sink = output.start(inputs, len)?;
        let (mut bar, numbers) = (Bar::new(console), TensorNumbers::of([plan]));
        let sink =
            ggmill_pipeline::run(plan, checkpoint, sink, &RunOptions::default(), &mut |progress| {
                bar.update(progress.written, progress.total, &numbers.label(progress.tensor));
                ControlFlow::Continue(())
            })
            .map_err(Failure::new)?;
        sink.commit().map_err(Failure::new)?;
        drop(bar);
        then()?;

        if json {
            let mut out = console.bytes();
            print_json(&mut out, plan, path, true)?;
            out.flush()?;
            return Ok(tell(plan, console));
        }
        console.note(format_args!("wrote {}", shown(path)));
        tell(plan, console);
        inspect::summarize(path, console)
    }
}

/// Notes about the choices made.
pub(crate) fn tell(plan: &Plan, console: Console) -> Status {
    for note in plan.notes() {
        console.note(note);
    }
    Status::Fine
}

/// The tensors of a plan, counted by type.
pub(crate) fn type_uses(plan: &Plan) -> Vec<TypeUse> {
    TypeUse::tally(
        plan.layout()
            .tensors()
            .iter()
            .map(|tensor| (tensor.ggml_type(), tensor.shape(), Some(tensor.size()))),
    )
}

/// The plan as a table: what would be placed where.
fn print_table(out: &mut dyn Write, plan: &Plan, output: &Path) -> io::Result<()> {
    let layout = plan.layout();
    let names: Vec<String> =
        layout.tensors().iter().map(|tensor| tensor.name().to_string()).collect();
    let shapes: Vec<String> =
        layout.tensors().iter().map(|tensor| tensor.shape().to_string()).collect();
    let widest =
        |column: &[String]| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (name_width, shape_width) = (widest(&names), widest(&shapes));
    for ((tensor, name), shape) in layout.tensors().iter().zip(&names).zip(&shapes) {
        writeln!(
            out,
            "{name:<name_width$}  {shape:<shape_width$}  {:<5}  {:>14} bytes at {:#x}",
            tensor.ggml_type(),
            tensor.size(),
            tensor.offset()
        )?;
    }
    let (tensors, data, total) = (layout.tensors().len(), layout.data_offset(), layout.total_len());
    writeln!(
        out,
        "{}: {tensors} tensors, data from {data:#x}, {total} bytes in all; nothing was written",
        shown(output)
    )
}

/// The plan as JSON (`docs/formats/plan.md`).
fn print_json(out: &mut dyn Write, plan: &Plan, output: &Path, written: bool) -> io::Result<()> {
    ggmill_text::json::write_pretty(out, &plan_document(plan, shown(output), written))
}

//! The output of the commands that write a model: the plan, what was written, and what the check and
//! a test run found.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ggmill::{Library, Note, Planned, Verification, Written};
use ggmill_check::{Report, Severity, render};
use ggmill_inspect::{TypeUse, text};
use ggmill_pipeline::Plan;
use ggmill_run::Probe;
use serde_json::Value;

use crate::commands::inspect;
use crate::console::{Console, counted};
use crate::files::shown;
use crate::hints;
use crate::outcome::{Failure, Status};
use crate::progress::Bars;

/// The minimum width of the type column: most type names fit.
const MIN_TYPE: usize = 5;
/// The minimum width of the size column: sizes of large tensors fit.
const MIN_SIZE: usize = 14;

/// Writes a planned model and prints what was written; with `dry_run` only prints the plan.
pub(crate) fn make(
    planned: Planned<'_>,
    dry_run: bool,
    json: bool,
    bars: &Bars,
    console: Console,
) -> Result<Status, Failure> {
    if dry_run {
        bars.clear();
        return print_planned(&planned, json, console).map(|()| Status::Fine);
    }
    let written = planned.write()?;
    bars.clear();
    print_written(&written, json, console)
}

/// Prints the plan of a model. Fails if the outputs could not be written.
pub(crate) fn print_planned(
    planned: &Planned<'_>,
    json: bool,
    console: Console,
) -> Result<(), Failure> {
    let (plans, paths) = (planned.plans(), planned.paths());
    let mut out = console.text();
    match (planned.is_split(), plans, paths) {
        _ if json => ggmill_text::json::write_pretty(&mut out, &reworded(planned.document()?))?,
        (false, [plan], [path]) => {
            print_table(&mut out, plan, path, console.width())?;
            writeln!(out)?;
            let options = text::Options::default()
                .with_width(console.width())
                .with_styled(console.is_styled());
            text::write_size(&mut out, plan.layout().total_len(), &type_uses(plan), &options)?;
        }
        _ => print_shards(&mut out, plans, paths)?,
    }
    out.flush()?;
    for note in planned.notes() {
        console.tell(&note);
    }
    planned.check_outputs()?;
    if planned.is_split() {
        console.note("nothing was written");
    }
    Ok(())
}

/// Prints what was written: the path and a summary of the model, a table of shards, or JSON.
pub(crate) fn print_written(
    written: &Written,
    json: bool,
    console: Console,
) -> Result<Status, Failure> {
    let tell = || written.notes().iter().for_each(|note| console.tell(note));
    if json {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &reworded(written.document()?))?;
        out.flush()?;
        tell();
        return Ok(Status::Fine);
    }
    if let (false, [path]) = (written.is_split(), written.paths()) {
        console.note(format_args!("wrote {}", shown(path)));
        tell();
        return inspect::summarize(path, console);
    }
    if !console.is_quiet() {
        let mut out = console.text();
        print_shards(&mut out, written.plans(), written.paths())?;
        out.flush()?;
    }
    tell();
    Ok(Status::Fine)
}

/// Rewords the notes in the JSON of a plan, or of the plans of shards, so that they name options.
fn reworded(mut document: Value) -> Value {
    let reword = |plan: &mut Value| {
        let notes = plan.get_mut("notes").and_then(Value::as_array_mut);
        for note in notes.into_iter().flatten() {
            if let Some(text) = note.as_str() {
                *note = hints::note(&Note::of_plan(text)).into();
            }
        }
    };
    reword(&mut document);
    let plans = document.get_mut("plans").and_then(Value::as_array_mut);
    plans.into_iter().flatten().for_each(reword);
    document
}

/// Writes a table of shards.
fn print_shards(out: &mut dyn Write, plans: &[Plan], paths: &[PathBuf]) -> io::Result<()> {
    for (plan, path) in plans.iter().zip(paths) {
        let layout = plan.layout();
        let tensors = counted(layout.tensors().len(), "tensor");
        writeln!(out, "{}  {tensors}  {} bytes", shown(path), layout.total_len())?;
    }
    Ok(())
}

/// Counts the tensors of a plan by type.
fn type_uses(plan: &Plan) -> Vec<TypeUse> {
    TypeUse::tally(
        plan.layout()
            .tensors()
            .iter()
            .map(|tensor| (tensor.ggml_type(), tensor.shape(), Some(tensor.size()))),
    )
}

/// Writes a plan as a table of tensors with shape, type, size and offset. If the terminal is too
/// narrow, tensor names are on separate lines.
fn print_table(
    out: &mut dyn Write,
    plan: &Plan,
    output: &Path,
    width: Option<usize>,
) -> io::Result<()> {
    let layout = plan.layout();
    let names: Vec<String> =
        layout.tensors().iter().map(|tensor| tensor.name().to_string()).collect();
    let rows: Vec<[String; 4]> = layout
        .tensors()
        .iter()
        .map(|tensor| {
            let (shape, ggml_type) = (tensor.shape().to_string(), tensor.ggml_type().to_string());
            [shape, ggml_type, tensor.size().to_string(), format!("{:#x}", tensor.offset())]
        })
        .collect();
    let columns = |text: &str| text.chars().count();
    let widest = |cells: &mut dyn Iterator<Item = &String>| {
        cells.map(|cell| columns(cell)).max().unwrap_or(0)
    };
    let [shape, ggml_type, size, offset] =
        [0, 1, 2, 3].map(|column| widest(&mut rows.iter().map(|row| &row[column])));
    let (name, ggml_type) = (widest(&mut names.iter()), ggml_type.max(MIN_TYPE));
    let size = size.max(MIN_SIZE);
    let rest = shape + 2 + ggml_type + 2 + size + " bytes at ".len() + offset;
    let is_narrow = width.is_some_and(|width| width < name + 2 + rest);
    let size = if is_narrow { 0 } else { size };
    for (cells, tensor) in rows.iter().zip(&names) {
        let [shape_cell, type_cell, size_cell, offset_cell] = cells;
        if is_narrow {
            write!(out, "{tensor}\n  ")?;
        } else {
            write!(out, "{tensor:<name$}  ")?;
        }
        writeln!(
            out,
            "{shape_cell:<shape$}  {type_cell:<ggml_type$}  {size_cell:>size$} bytes at {offset_cell}"
        )?;
    }
    let (tensors, data, total) = (layout.tensors().len(), layout.data_offset(), layout.total_len());
    writeln!(
        out,
        "{}: {}, data from {data:#x}, {total} bytes in all; nothing was written",
        shown(output),
        counted(tensors, "tensor")
    )
}

/// Prints the errors that the check before writing found. Fails if there are any.
pub(crate) fn refuse_errors(planned: &Planned<'_>, console: Console) -> Result<(), Failure> {
    let Some(refusal) = planned.check_refusal() else { return Ok(()) };
    let mut out = console.errors();
    let mut text = render::Text::new(console.styles_errors(), None);
    let reports = planned.reports().iter().zip(planned.paths());
    for (report, path) in reports.filter(|(report, _)| report.has_errors()) {
        text.file(&mut out, &render::Checked::new(&shown(path).to_string(), report))?;
    }
    out.flush()?;
    Err(refusal.into())
}

/// Prints a summary of the findings that did not prevent writing. A missing vocabulary is not a
/// finding, but is noted here. `notes` name tensors with values that are not finite, or lost.
pub(crate) fn summarize_findings(
    reports: &[Report],
    notes: &[Note],
    has_vocabulary: bool,
    console: Console,
) {
    /// The maximum number of rules that are named.
    const NAMED: usize = 4;
    if reports.is_empty() {
        return;
    }
    let count = |severity| reports.iter().map(|report| report.count(severity)).sum::<u64>();
    let counted = |number: u64, thing: &str| match number {
        0 => None,
        1 => Some(format!("1 {thing}")),
        _ => Some(format!("{number} {thing}s")),
    };
    let severities =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let found: Vec<String> = severities
        .into_iter()
        .filter_map(|(severity, name)| counted(count(severity), name))
        .collect();
    let lacks = if has_vocabulary { "" } else { "; the file has no vocabulary" };
    if found.is_empty() {
        let is_about_values =
            |note: &Note| matches!(note, Note::Underflow(_) | Note::CopiedNonFinite(_));
        let found =
            if notes.iter().any(is_about_values) { "no other findings" } else { "no findings" };
        return console.note(format_args!(
            "check: {found} in metadata and layout{lacks}; `ggmill check --data` examines the weights"
        ));
    }
    let mut rules: Vec<String> = Vec::new();
    for (rule, _) in reports.iter().flat_map(Report::counts) {
        let named = format!("{} ({})", rule.summary, rule.code);
        if !rules.contains(&named) {
            rules.push(named);
        }
    }
    let more = match rules.len().saturating_sub(NAMED) {
        0 => "",
        _ => ", …",
    };
    rules.truncate(NAMED);
    let message = format!("check: {}: {}{more}{lacks}", found.join(", "), rules.join(", "));
    if count(Severity::Error) + count(Severity::Warning) > 0 {
        console.warn(message);
    } else {
        console.note(message);
    }
}

/// Returns the report of a test run of a model over a few tokens, as text: for `ggmill check --run`
/// and `ggmill convert --verify`.
pub(crate) fn probe_text(path: &Path, found: &Probe, faults: &[String]) -> String {
    let mut out = String::new();
    let (least, greatest) = found.range;
    let _ = writeln!(
        out,
        "{}: {} tokens run, outputs from {least:.3} to {greatest:.3}, root mean square {:.3}",
        shown(path),
        found.tokens,
        found.root_mean_square
    );
    if let Some(difference) = &found.difference {
        let _ = writeln!(
            out,
            "  recorded logits: NMSE {:.1e}, same most probable token {:.1}%, KL divergence {:.1e}",
            difference.nmse,
            100.0 * difference.same_top,
            difference.divergence
        );
    }
    write_faults(&mut out, faults);
    out
}

/// Returns the report of the verification of a converted model, as text.
pub(crate) fn verification_text(path: &Path, found: &Verification) -> String {
    let mut out = probe_text(path, &found.probe, &[]);
    if let Some(entropy) = found.probe.entropy {
        let _ = writeln!(out, "  entropy of the next token: {entropy:.3} nats");
    }
    if let Some(difference) = &found.unquantized {
        let _ = writeln!(
            out,
            "  conversion to F32: NMSE {:.1e}, same most probable token {:.1}%, KL divergence {:.1e}",
            difference.nmse,
            100.0 * difference.same_top,
            difference.divergence
        );
    }
    match &found.library {
        Some(Library::Compared { version, difference, compared_tokens, .. }) => {
            let tokens = match compared_tokens {
                0 => "no text is tokenized".to_owned(),
                &count => format!("{} of a text", counted(count, "token")),
            };
            let _ = writeln!(
                out,
                "  transformers {version}, compared with the conversion to F32: NMSE {:.1e}, same most \
                 probable token {:.1}%, {tokens}",
                difference.nmse,
                100.0 * difference.same_top
            );
        }
        Some(Library::NotCompared(reason)) => {
            let _ = writeln!(out, "  not compared with transformers: {reason}");
        }
        _ => {}
    }
    write_faults(&mut out, &found.faults());
    out
}

fn write_faults(out: &mut String, faults: &[String]) {
    for fault in faults {
        let _ = writeln!(out, "  not plausible: {fault}");
    }
}

#[cfg(test)]
mod tests {
    use ggmill_core::{GgmlType, MetadataBuf, Shape};
    use ggmill_pipeline::{Expression, MemorySource, Recipe, RecipeTensor};

    use super::*;

    fn table(width: Option<usize>) -> String {
        let name = "blk.10.attn_output_of_a_long_name.weight";
        let shape = Shape::new(&[64, 4]).unwrap();
        let values = Expression::floats(shape, vec![0.5; 256]).unwrap();
        let tensors = vec![RecipeTensor::new(name, values)];
        let source = MemorySource::new();
        let plan = Recipe::new(MetadataBuf::new(), tensors).plan(&source).unwrap();
        assert_eq!(plan.layout().tensors()[0].ggml_type(), GgmlType::F32);
        let mut out = Vec::new();
        print_table(&mut out, &plan, Path::new("x.gguf"), width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_are_on_separate_lines_on_a_narrow_terminal() {
        let wide =
            "blk.10.attn_output_of_a_long_name.weight  64 × 4  F32              1024 bytes at ";
        assert!(table(None).starts_with(wide) && table(Some(90)) == table(None), "{}", table(None));
        let narrow = "blk.10.attn_output_of_a_long_name.weight\n  64 × 4  F32    1024 bytes at ";
        assert!(table(Some(40)).starts_with(narrow), "{}", table(Some(40)));
    }
}

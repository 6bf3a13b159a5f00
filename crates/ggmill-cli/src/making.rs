//! Common to every command that makes a model: its plan is printed, or the file written and
//! reported.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ggmill::{Note, Planned, Written};
use ggmill_inspect::{TypeUse, text};
use ggmill_pipeline::Plan;
use serde_json::Value;

use crate::commands::inspect;
use crate::console::Console;
use crate::counted::counted;
use crate::hints;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::progress::Bars;

/// Columns of a type: of most of them.
const MIN_TYPE: usize = 5;
/// Columns of a size in bytes: that of a large tensor.
const MIN_SIZE: usize = 14;

/// Prints a model that is planned, or writes it and prints what was written.
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

/// Prints a model that is planned and not written, and refuses what writing it would be refused for.
pub(crate) fn print_planned(
    planned: &Planned<'_>,
    json: bool,
    console: Console,
) -> Result<(), Failure> {
    let (plans, paths) = (planned.plans(), planned.paths());
    let mut out = console.text();
    match (planned.is_split(), plans, paths) {
        _ if json => ggmill_text::json::write_pretty(&mut out, &in_words(planned.document()?))?,
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

/// Prints a model that was written.
pub(crate) fn print_written(
    written: &Written,
    json: bool,
    console: Console,
) -> Result<Status, Failure> {
    let tell = || written.notes().iter().for_each(|note| console.tell(note));
    if json {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &in_words(written.document()?))?;
        out.flush()?;
        tell();
        return Ok(Status::Fine);
    }
    match (written.is_split(), written.paths()) {
        (false, [path]) => {
            console.note(format_args!("wrote {}", shown(path)));
            tell();
            inspect::summarize(path, console)
        }
        _ => {
            if !console.is_quiet() {
                let mut out = console.text();
                print_shards(&mut out, written.plans(), written.paths())?;
                out.flush()?;
            }
            tell();
            Ok(Status::Fine)
        }
    }
}

/// A plan, or the plans of shards, with notes in terms of options.
fn in_words(mut document: Value) -> Value {
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

/// The shards of a set as a table.
fn print_shards(
    out: &mut dyn Write,
    plans: &[Plan],
    paths: &[PathBuf],
) -> io::Result<()> {
    for (plan, path) in plans.iter().zip(paths) {
        let layout = plan.layout();
        let tensors = counted(layout.tensors().len(), "tensor");
        writeln!(out, "{}  {tensors}  {} bytes", shown(path), layout.total_len())?;
    }
    Ok(())
}

/// The tensors of a plan, counted by type.
fn type_uses(plan: &Plan) -> Vec<TypeUse> {
    TypeUse::tally(
        plan.layout()
            .tensors()
            .iter()
            .map(|tensor| (tensor.ggml_type(), tensor.shape(), Some(tensor.size()))),
    )
}

/// The plan as a table: what would be placed where. On a terminal that is too narrow for it the name
/// of a tensor has a line of its own.
fn print_table(
    out: &mut dyn Write,
    plan: &Plan,
    output: &Path,
    room: Option<usize>,
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
    let is_narrow = room.is_some_and(|room| room < name + 2 + rest);
    let size = if is_narrow { 0 } else { size };
    for (cells, tensor) in rows.iter().zip(&names) {
        let [own_shape, own_type, own_size, own_offset] = cells;
        if is_narrow {
            write!(out, "{tensor}\n  ")?;
        } else {
            write!(out, "{tensor:<name$}  ")?;
        }
        writeln!(
            out,
            "{own_shape:<shape$}  {own_type:<ggml_type$}  {own_size:>size$} bytes at {own_offset}"
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

#[cfg(test)]
mod tests {
    use ggmill_core::{GgmlType, MetadataBuf, Shape};
    use ggmill_pipeline::{Expression, MemorySource, Recipe, RecipeTensor};

    use super::*;

    fn table(room: Option<usize>) -> String {
        let name = "blk.10.attn_output_of_a_long_name.weight";
        let shape = Shape::new(&[64, 4]).unwrap();
        let values = Expression::floats(shape, vec![0.5; 256]).unwrap();
        let tensors = vec![RecipeTensor::new(name, values)];
        let source = MemorySource::new();
        let plan = Recipe::new(MetadataBuf::new(), tensors).plan(&source).unwrap();
        assert_eq!(plan.layout().tensors()[0].ggml_type(), GgmlType::F32);
        let mut out = Vec::new();
        print_table(&mut out, &plan, Path::new("x.gguf"), room).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_name_has_a_line_of_its_own_on_a_narrow_terminal() {
        let wide =
            "blk.10.attn_output_of_a_long_name.weight  64 × 4  F32              1024 bytes at ";
        assert!(table(None).starts_with(wide) && table(Some(90)) == table(None), "{}", table(None));
        let narrow = "blk.10.attn_output_of_a_long_name.weight\n  64 × 4  F32    1024 bytes at ";
        assert!(table(Some(40)).starts_with(narrow), "{}", table(Some(40)));
    }
}

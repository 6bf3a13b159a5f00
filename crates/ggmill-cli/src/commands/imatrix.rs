//! `ggmill imatrix`: measures, shows, merges and converts importance matrices.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ggmill::{WrittenImatrix, merge_imatrices};
use ggmill_core::RawStr;
use ggmill_quantize::{Imatrix, ImatrixEntry, ImatrixForm};
use ggmill_run::Matrices;

use crate::console::Console;
use crate::files::{open_model, refuse_stream, shown};
use crate::options::{RunArgs, TextArgs, with_run};
use crate::outcome::{Failure, Status};
use crate::progress::Bars;

/// Make, show, merge and convert importance matrices
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measure the importance matrix of a model over a text
    Make(Make),
    /// Show the datasets and the entries of an importance matrix
    Show(Show),
    /// Merge importance matrices, as llama-imatrix --in-file does
    #[command(after_help = "\
Examples:
  ggmill imatrix merge wiki.gguf code.gguf -o both.gguf
  ggmill imatrix merge old.dat new.gguf -o both.gguf --chunk-size 2048

The sums and counts of each tensor are added, and the dataset names are concatenated. Both \
formats can be mixed.")]
    Merge(Merge),
    /// Convert an importance matrix to the other format: GGUF, or the legacy binary .dat
    Convert(Convert),
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Gguf,
    Dat,
}

impl From<Format> for ImatrixForm {
    fn from(format: Format) -> Self {
        match format {
            Format::Gguf => Self::Gguf,
            Format::Dat => Self::Legacy,
        }
    }
}

#[derive(Debug, clap::Args)]
struct Show {
    /// A file from llama-imatrix: GGUF, or legacy binary
    file: PathBuf,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Merge {
    /// Files from llama-imatrix, in either format
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Debug, clap::Args)]
struct Convert {
    /// A file from llama-imatrix, in either format
    file: PathBuf,
    /// The file to write
    output: PathBuf,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Debug, clap::Args)]
struct Writing {
    /// The format to write [default: dat if OUT ends in .dat, else gguf]
    #[arg(long, value_name = "FORM", value_enum)]
    output_format: Option<Format>,
    /// Tokens per chunk [default: the number in the first file, else 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk_size: Option<u32>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    match &args.command {
        Command::Make(make) => run_make(make, console),
        Command::Show(show) => run_show(show, console),
        Command::Merge(merge) => run_merge(&merge.files, &merge.output, &merge.writing, console),
        Command::Convert(convert) => run_merge(
            std::slice::from_ref(&convert.file),
            &convert.output,
            &convert.writing,
            console,
        ),
    }
}

fn run_show(show: &Show, console: Console) -> Result<Status, Failure> {
    ggmill::refuse_interrupted(&[&show.file])?;
    let imatrix = Imatrix::open(&show.file).map_err(Failure::new)?;
    if show.json {
        let mut out = console.bytes();
        json(&mut out, &imatrix)?;
        out.flush()?;
    } else {
        let mut out = console.text();
        table(&mut out, &imatrix)?;
        out.flush()?;
    }
    Ok(Status::Fine)
}

fn run_merge(
    files: &[PathBuf],
    output: &Path,
    writing: &Writing,
    console: Console,
) -> Result<Status, Failure> {
    refuse_stream(output)?;
    let mut builder = merge_imatrices(files)?.overwrite(writing.force);
    if let Some(tokens) = writing.chunk_size {
        builder = builder.chunk_size(tokens);
    }
    if let Some(format) = writing.output_format {
        builder = builder.form(format.into());
    }
    print_written(console, &builder.write(output)?);
    Ok(Status::Fine)
}

/// Prints the notes about a matrix that was written, its path and its size.
fn print_written(console: Console, written: &WrittenImatrix) {
    written.notes().iter().for_each(|note| console.tell(note));
    let named = if written.form() == ImatrixForm::Legacy { "the legacy format" } else { "GGUF" };
    console.note(format_args!(
        "wrote {}: {named}, {} entries, {} chunks",
        shown(written.path()),
        written.imatrix().entries().len(),
        written.imatrix().chunk_count()
    ));
}

fn format_name(imatrix: &Imatrix) -> &'static str {
    match imatrix.form() {
        ImatrixForm::Gguf => "GGUF",
        ImatrixForm::Legacy => "legacy",
        _ => "other",
    }
}

/// Returns the smallest, mean and largest weight of an entry.
fn spread(entry: &ImatrixEntry) -> [f64; 3] {
    let weights = entry.weights();
    let bounds =
        weights.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), &weight| {
            (least.min(weight), most.max(weight))
        });
    #[expect(clippy::cast_precision_loss, reason = "an entry has far fewer than 2^52 weights")]
    let mean =
        weights.iter().map(|&weight| f64::from(weight)).sum::<f64>() / weights.len().max(1) as f64;
    [f64::from(bounds.0), mean, f64::from(bounds.1)]
}

/// Returns the count of an entry, or the range of counts of its matrices.
fn counts(entry: &ImatrixEntry) -> String {
    let (least, most) = (entry.counts().iter().min(), entry.counts().iter().max());
    match (least, most) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "0".to_owned(),
    }
}

fn table(out: &mut dyn Write, imatrix: &Imatrix) -> io::Result<()> {
    let entries = imatrix.entries().len();
    writeln!(out, "{} importance matrix, {entries} entries", format_name(imatrix))?;
    for name in imatrix.datasets() {
        writeln!(out, "measured on  {name}")?;
    }
    if imatrix.chunk_count() > 0 {
        let tokens = if imatrix.chunk_size() > 0 {
            format!(" of {} tokens", imatrix.chunk_size())
        } else {
            String::new()
        };
        writeln!(out, "chunks       {}{tokens}", imatrix.chunk_count())?;
    }
    let mut entries: Vec<_> = imatrix.entries().collect();
    entries.sort_by_cached_key(|(name, _)| by_numbers(&name.to_string()));
    let rows: Vec<[String; 7]> = entries.iter().map(|(name, entry)| row(*name, entry)).collect();
    let head = ["tensor", "columns", "matrices", "count", "smallest", "mean", "largest"];
    let widths: Vec<usize> = (0..head.len())
        .map(|i| {
            rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0).max(head[i].len())
        })
        .collect();
    writeln!(out)?;
    for row in std::iter::once(head.map(str::to_owned)).chain(rows) {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            #[expect(clippy::format_push_string, reason = "a short line")]
            line.push_str(&format!("  {cell:>width$}"));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Returns a sort key by which `blk.2` comes before `blk.10`.
fn by_numbers(name: &str) -> Vec<(u64, String)> {
    name.split('.').map(|part| (part.parse().unwrap_or(u64::MAX), part.to_owned())).collect()
}

fn row(name: RawStr<'_>, entry: &ImatrixEntry) -> [String; 7] {
    let [least, mean, most] = spread(entry).map(|weight| format!("{weight:.4e}"));
    [
        name.to_string(),
        entry.width().to_string(),
        entry.counts().len().to_string(),
        counts(entry),
        least,
        mean,
        most,
    ]
}

fn json(out: &mut dyn Write, imatrix: &Imatrix) -> io::Result<()> {
    let entry = |(name, entry): (RawStr<'_>, &ImatrixEntry)| {
        let [least, mean, most] = spread(entry);
        serde_json::json!({
            "tensor": name.to_string_lossy(), "columns": entry.width(), "counts": entry.counts(), "least": least, "mean": mean, "most": most,
        })
    };
    let shown = serde_json::json!({
        "schema": "ggmill.imatrix/1",
        "form": format_name(imatrix).to_ascii_lowercase(),
        "datasets": imatrix.datasets().map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "chunk_count": imatrix.chunk_count(),
        "chunk_size": imatrix.chunk_size(),
        "entries": imatrix.entries().map(entry).collect::<Vec<_>>(),
    });
    ggmill_text::json::write_pretty(out, &shown)
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill imatrix make model-F16.gguf --text calibration.txt -o imatrix.gguf
  ggmill imatrix make model-F16.gguf --text t.txt -o imatrix.gguf --resume
  ggmill imatrix make model.gguf --text t.txt --chunks 50 -o a.gguf
  ggmill imatrix make model.gguf --text t.txt --from-chunk 50 -o b.gguf
  ggmill imatrix merge a.gguf b.gguf -o imatrix.gguf   # combine parts

The rules are those of llama-imatrix: only the matrices of blocks are measured unless --process-output \
or --all-matrices is given, and experts are weighted by how often each was chosen. The model is computed in F32 from the weights in the file, on \
the CPU; the result does not depend on the number of threads or on --memory.")]
struct Make {
    /// The model: a file, or any shard of a split model
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    #[command(flatten)]
    text: TextArgs,
    /// The importance matrix to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The format to write [default: dat if OUT ends in .dat, else gguf]
    #[arg(long, value_name = "FORM", value_enum)]
    output_format: Option<Format>,
    /// Use at most N chunks
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,
    /// Skip the first N chunks of the text
    #[arg(long, value_name = "N", default_value_t = 0)]
    from_chunk: usize,
    /// If OUT exists, continue after the chunks that it contains; the text, --from-chunk and --ctx
    /// must be those of the interrupted run
    #[arg(long)]
    resume: bool,
    /// Write OUT after every N chunks
    #[arg(long, value_name = "N", default_value_t = 10)]
    save_every: usize,
    /// Also measure output.weight
    #[arg(long)]
    process_output: bool,
    /// Measure every matrix, also those outside the blocks that llama-imatrix never measures, such as
    /// token embeddings that serve as the output matrix
    #[arg(long, conflicts_with = "process_output")]
    all_matrices: bool,
    /// Replace OUT if it exists
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    #[command(flatten)]
    run: RunArgs,
}

impl Make {
    fn matrices(&self) -> Matrices {
        match (self.all_matrices, self.process_output) {
            (true, _) => Matrices::All,
            (false, true) => Matrices::BlocksAndOutput,
            (false, false) => Matrices::Blocks,
        }
    }
}

fn run_make(args: &Make, console: Console) -> Result<Status, Failure> {
    refuse_stream(&args.output)?;
    let model = open_model(&args.file)?;
    let bars = Bars::new(console);
    let (shown, told) = (bars.clone(), bars.clone());
    let mut builder = ggmill::imatrix(&model)?
        .matrices(args.matrices())
        .resume(args.resume)
        .save_every(args.save_every)
        .overwrite(args.force)
        .on_progress(move |progress| shown.show(progress))
        .on_note(move |note| told.tell(note));
    if let Some(format) = args.output_format {
        builder = builder.form(format.into());
    }
    let text = args.text.run_text().skip(args.from_chunk).chunks(args.chunks);
    let written = with_run!(&args.run, text, builder).write(&args.output)?;
    bars.clear();
    print_written(console, &written);
    Ok(Status::Fine)
}

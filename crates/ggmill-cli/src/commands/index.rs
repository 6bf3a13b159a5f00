//! `ggmill index`: writes tables of the files, tensors and metadata of many models.

use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ggmill_inspect::index::IndexOutcome;

use crate::console::{Console, counted};
use crate::hints;
use crate::outcome::{Failure, Status};
use crate::progress::Bars;
use crate::remote;
use ggmill::read_text;

/// The maximum size of a list of files, in bytes.
const MAX_LIST: u64 = 256 << 20;
/// The maximum number of threads.
const MAX_THREADS: usize = 512;

/// Write tables of the files, tensors and metadata of many models, as Parquet or NDJSON
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill index models/ -o models.parquet
  ggmill index models/ -o models.parquet --resume
  ggmill index hf://OWNER/NAME models/ -o models.ndjson

models.parquet has a row for each file, models.tensors.parquet for each tensor, and \
models.metadata.parquet for each metadata entry; --resume reads models.ndjson.sz. NDJSON has all rows in one file, \
distinguished by the field `record`. Only headers are read. A file that cannot be read has a row \
with the error; the exit code is 2 if no file could be read in full. If the command is interrupted, the index contains the files that were read; \
--resume reads the others.")]
pub(crate) struct Args {
    /// Files, directories, URLs, and repositories of the Hugging Face Hub; of directories and
    /// repositories, the .gguf files
    #[arg(value_name = "PATH", required_unless_present = "files_from")]
    paths: Vec<PathBuf>,
    /// The index: NAME.parquet, NAME.ndjson, NAME.jsonl, or - for NDJSON on standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// A text file with more paths or URLs, one per line; - is standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Update an existing index: read only files that are new, or whose size or modification time
    /// has changed, and those that could not be read; drop files that are no longer there
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Overwrite an existing index
    #[arg(long)]
    force: bool,
    /// Number of files read at a time [default: one per core, or 8 for remote files]
    #[arg(long, short, value_name = "N", value_parser = number_of_threads)]
    threads: Option<NonZeroUsize>,
}

fn number_of_threads(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .ok()
        .filter(|number: &NonZeroUsize| number.get() <= MAX_THREADS)
        .ok_or_else(|| format!("expected a number from 1 to {MAX_THREADS}"))
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let mut paths = args.paths.clone();
    if let Some(list) = &args.files_from {
        let text = read_text(list, MAX_LIST)?;
        paths.extend(text.lines().filter(|line| !line.is_empty()).map(PathBuf::from));
    }
    let is_printed = args.output.as_os_str() == "-";
    if is_printed && args.resume {
        return Err(Failure::new("-: standard output cannot be updated"));
    }
    let bars = Bars::new(console);
    let (shown, told, interrupted) = (bars.clone(), bars.clone(), on_interrupt());
    let mut builder = ggmill::index(&paths)?
        .open_with(remote::options_for(&paths)?)
        .resume(args.resume)
        .overwrite(args.force)
        .word_hints(hints::hint)
        .on_note(move |note| told.tell(note))
        .on_progress(move |progress| {
            let _ = shown.show(progress);
            if interrupted.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    if let Some(threads) = args.threads {
        builder = builder.threads(threads.get());
    }
    let outcome = if is_printed {
        builder.write_ndjson(console.bytes()).map_err(not_printed)?
    } else {
        builder.write(&args.output)?
    };
    bars.clear();
    report(&outcome, args, console)
}

/// Converts an error of an index on standard output, whose reader may have closed the pipe. An error
/// with a path is about another file.
fn not_printed(error: ggmill::Error) -> Failure {
    match error.os_code() {
        Some(code) if error.path().is_none() => io::Error::from_raw_os_error(code).into(),
        _ => error.into(),
    }
}

fn report(outcome: &IndexOutcome, args: &Args, console: Console) -> Result<Status, Failure> {
    let count =
        |number: u64, thing: &str| counted(usize::try_from(number).unwrap_or(usize::MAX), thing);
    let entries = if outcome.entries == 1 { "entry" } else { "entries" };
    console.note(format_args!(
        "{} ({} unchanged), {}, {} metadata {entries}",
        count(outcome.files, "file"),
        outcome.kept,
        count(outcome.tensors, "tensor"),
        outcome.entries,
    ));
    if outcome.broken > 0 {
        console.warn(format_args!(
            "{} could not be read in full; the column `error` shows the reason",
            count(outcome.broken, "file"),
        ));
    }
    if outcome.skipped == 0 {
        if outcome.files > 0 && outcome.broken == outcome.files {
            return Err(Failure::new("no file could be read in full"));
        }
        return Ok(Status::Fine);
    }
    let message = format!("interrupted: {} not read", count(outcome.skipped, "file"));
    let hint = (args.output.as_os_str() != "-")
        .then(|| "the same command with --resume reads the rest".to_owned());
    Err(Failure::new(message).with_hint(hint))
}

/// Returns a flag that an interrupt sets. A second interrupt ends the process.
fn on_interrupt() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    // If the handler cannot be installed, an interrupt ends the process without an index.
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag));
        let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    flag
}

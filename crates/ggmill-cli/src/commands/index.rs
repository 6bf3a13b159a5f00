//! `ggmill index`: tables of what is in many files.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use ggmill_core::{ReadAt, Sink as _};
use ggmill_inspect::index::{Error, IndexOptions, IndexOutcome, Tables};
use ggmill_io::{FileSink, RandomAccess, commit_all};

use super::index_inputs::{Input, inputs};
use crate::console::Console;
use crate::counted::counted;
use crate::outcome::{Failure, Status};
use crate::outputs::start;
use crate::paths::shown;
use crate::progress::Bar;
use crate::remote;
use crate::text_file::read_text;

/// Bytes of a list of files, at most.
const MAX_LIST: u64 = 256 << 20;
/// Files of servers that are read at the same time.
const REMOTE_THREADS: usize = 8;
/// Threads, at most.
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

/// What is written.
enum Format {
    /// NDJSON on standard output.
    Printed,
    Ndjson,
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Format {
    fn of(output: &Path) -> Result<Self, Failure> {
        if output.as_os_str() == "-" {
            return Ok(Self::Printed);
        }
        let refused = |why: &str| Failure::new(format_args!("{}: {why}", shown(output)));
        match output.extension().and_then(|extension| extension.to_str()) {
            Some("ndjson" | "jsonl") => Ok(Self::Ndjson),
            #[cfg(feature = "parquet")]
            Some("parquet") => Ok(Self::Parquet),
            #[cfg(not(feature = "parquet"))]
            Some("parquet") => Err(refused("this program was built without `parquet`")
                .with_hint(Some("a name that ends in .ndjson gives NDJSON".to_owned()))),
            _ => Err(refused("expected a name that ends in .parquet, .ndjson or .jsonl")),
        }
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let format = Format::of(&args.output)?;
    let mut paths = args.paths.clone();
    if let Some(list) = &args.files_from {
        let text = read_text(list, MAX_LIST)?;
        paths.extend(text.lines().filter(|line| !line.is_empty()).map(PathBuf::from));
    }
    let work = |state: Option<&Path>| -> Result<Work, Failure> {
        let inputs = inputs(&paths)?;
        let has_remote = inputs.iter().any(|input| remote::is_remote(&input.path));
        let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let several = NonZeroUsize::new(REMOTE_THREADS).unwrap_or(cores);
        let threads = if has_remote { cores.max(several) } else { cores };
        Ok(Work {
            earlier: earlier(state, args.resume)?,
            inputs,
            options: IndexOptions::default().with_threads(args.threads.unwrap_or(threads)),
            interrupted: on_interrupt(),
        })
    };
    let outcome = match format {
        Format::Printed => {
            if args.resume {
                return Err(Failure::new("-: standard output cannot be updated"));
            }
            let mut work = work(None)?;
            let mut out = console.bytes();
            work.write(|_| Tables::ndjson(&mut out, None), console)?
        }
        Format::Ndjson => {
            let mut sinks = begin([&*args.output], args, &paths)?;
            let mut work = work(Some(&args.output))?;
            let [sink] = &mut sinks;
            let outcome = work.write(|earlier| Tables::ndjson(sink, earlier), console)?;
            commit(sinks)?;
            outcome
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            let [tensors, metadata, state] =
                ["tensors.parquet", "metadata.parquet", "ndjson.sz"]
                    .map(|extension| args.output.with_extension(extension));
            let mut sinks = begin([&args.output, &tensors, &metadata, &state], args, &paths)?;
            let mut work = work(Some(&state))?;
            let [files, tensors, metadata, state] = sinks.each_mut();
            let outputs = [files, tensors, metadata];
            let outcome =
                work.write(|earlier| Tables::parquet(outputs, state, earlier), console)?;
            commit(sinks)?;
            outcome
        }
    };
    report(&outcome, args, console)
}

/// Starts the outputs; one that exists is replaced if it is to be updated.
fn begin<const N: usize>(
    outputs: [&Path; N],
    args: &Args,
    inputs: &[PathBuf],
) -> Result<[Output; N], Failure> {
    let there = outputs.map(Path::exists);
    if args.resume
        && there.contains(&true)
        && let Some((missing, _)) = outputs.iter().zip(there).find(|(_, there)| !there)
    {
        let message = format!("{}: missing, so the index cannot be updated", shown(missing));
        return Err(Failure::new(message).with_hint(Some("--force writes a new index".to_owned())));
    }
    let inputs: Vec<PathBuf> =
        inputs.iter().filter(|input| !remote::is_remote(input)).cloned().collect();
    let replace = args.force || args.resume && there.contains(&true);
    let mut sinks = Vec::with_capacity(N);
    for output in outputs {
        let sink = start(output, &inputs, replace, 0).map_err(|failure| match failure {
            Failure::Refused { message, hint: Some(hint) } if hint.starts_with("--force") => {
                let hint = Some("--resume updates it, --force replaces it".to_owned());
                Failure::new(message).with_hint(hint)
            }
            failure => failure,
        })?;
        sinks.push(Output(sink));
    }
    sinks.try_into().map_err(|_| Failure::new("an output for each table"))
}

/// Gives the outputs their names, that of the table of files last.
fn commit<const N: usize>(sinks: [Output; N]) -> Result<(), Failure> {
    commit_all(sinks.into_iter().rev().map(|Output(sink)| sink).collect()).map_err(Failure::new)
}

/// Opens the file from which the index is updated, if it exists.
fn earlier(state: Option<&Path>, resume: bool) -> Result<Option<Arc<dyn ReadAt>>, Failure> {
    let Some(path) = state.filter(|path| resume && path.exists()) else { return Ok(None) };
    let file = RandomAccess::open(path).map_err(Failure::new)?;
    Ok(Some(Arc::new(file)))
}

/// An output as the library writes it.
struct Output(FileSink);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is to be done.
struct Work {
    inputs: Vec<Input>,
    earlier: Option<Arc<dyn ReadAt>>,
    options: IndexOptions,
    interrupted: Arc<AtomicBool>,
}

impl Work {
    fn write<'t>(
        &mut self,
        tables: impl FnOnce(Option<Arc<dyn ReadAt>>) -> ggmill_inspect::index::Result<Tables<'t>>,
        console: Console,
    ) -> Result<IndexOutcome, Failure> {
        let tables = tables(self.earlier.take()).map_err(failure)?;
        let candidates: Vec<_> = self.inputs.iter().map(|input| input.candidate.clone()).collect();
        let total = candidates.len() as u64;
        let mut bar = Bar::of_pieces(console, "files");
        let open = |number: usize| match self.inputs.get(number) {
            Some(input) => input.open(),
            None => Err("not one of the files".to_owned()),
        };
        let result =
            ggmill_inspect::index::index(&candidates, &open, tables, &self.options, &mut |file, outcome| {
                bar.update(outcome.files, total, &file.path);
                if self.interrupted.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
        drop(bar);
        // Also if the index cannot be written.
        let outcome = result.as_ref().unwrap_or_else(|unfinished| &unfinished.outcome);
        for fault in &outcome.faults {
            if let Some(input) = self.inputs.get(fault.file) {
                console.warn(format_args!("{}: {}", shown(&input.path), fault.reason));
            }
        }
        result.map_err(|unfinished| failure(unfinished.error))
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Write(error) if error.raw_os_error().is_some() => error.into(),
        Error::Previous(_) => {
            Failure::new(error).with_hint(Some("--force writes a new index".to_owned()))
        }
        error => Failure::new(error),
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

/// A flag that an interrupt sets; a second one ends the process.
fn on_interrupt() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    // Without it an interrupt ends the process, and there is no index.
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag));
        let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    flag
}

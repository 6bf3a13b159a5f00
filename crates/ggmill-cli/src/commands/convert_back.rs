//! `ggmill convert --to safetensors`: a GGUF file becomes a checkpoint again.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ggmill_convert::{RestoreOptions, RestoredCheckpoint, restore_checkpoint};
use ggmill_core::{GgmlType, RawStr, keys};
use ggmill_io::NewDirectory;
use ggmill_pipeline::{ErrorKind, RunOptions, ShardLimit};

use crate::arch_file::catalogue;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::inputs_of;
use crate::paths::shown;
use crate::progress::Bar;
use crate::source::open_checkpoint;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Safetensors,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BackArgs {
    /// Turn a GGUF file back into a checkpoint: a directory with config.json, tensors and
    /// tokenizer
    #[arg(long = "to", value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The class of that checkpoint; by default the one that fits the file best
    #[arg(long, value_name = "NAME", requires = "format")]
    class: Option<String>,
}

impl BackArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.format.is_some()
    }
}

/// What is asked for.
pub(crate) struct Request {
    pub(crate) src: PathBuf,
    pub(crate) output: Option<PathBuf>,
    /// `None` for the type that the file has.
    pub(crate) ggml_type: Option<GgmlType>,
    pub(crate) limit: Option<ShardLimit>,
    pub(crate) no_vocab: bool,
    pub(crate) vocab_only: bool,
    pub(crate) arch_file: Vec<PathBuf>,
    pub(crate) dry_run: bool,
    pub(crate) back: BackArgs,
}

pub(crate) fn run(request: Request, console: Console) -> Result<Status, Failure> {
    let Request { src, output, ggml_type, limit, no_vocab, vocab_only, .. } = request;
    let (arch_file, dry_run, back) = (request.arch_file, request.dry_run, request.back);
    let checkpoint = open_checkpoint(&src)?;
    inputs_of(&checkpoint)?;
    let catalogue = catalogue(&arch_file)?;
    let name = checkpoint.metadata().str(keys::GENERAL_ARCHITECTURE).map_err(Failure::new)?;
    let architecture = catalogue.by_name(name).ok_or_else(|| {
        Failure::new(format_args!(
            "{}: there is no description of the architecture {:?}",
            shown(&src),
            RawStr::from(name)
        ))
        .with_hint(Some("--arch-file adds a description of your own".to_owned()))
    })?;
    let output = output.unwrap_or_else(|| default_output(&src));
    let begun = NewDirectory::create(&output).map_err(|error| {
        let hint = (error.kind() == ggmill_io::ErrorKind::Exists).then(|| {
            "a directory that is there is not replaced: remove it, or name another with -o"
                .to_owned()
        });
        Failure::new(error).with_hint(hint)
    })?;
    let mut options = RestoreOptions::default();
    (options.ggml_type, options.class, options.no_vocab) = (ggml_type, back.class, no_vocab);
    let restored = if vocab_only {
        RestoredCheckpoint::of_vocabulary(checkpoint.metadata())
    } else {
        restore_checkpoint(&checkpoint, architecture, &options)
    };
    let restored = restored.map_err(|error| {
        let is_vocabulary = error.kind() == ErrorKind::PreTokenizer
            || error.subject().contains("tokenizer.")
            || error.to_string().contains("vocabulary");
        let hint = (is_vocabulary && !vocab_only)
            .then(|| "--no-vocab leaves the tokenizer out".to_owned());
        Failure::new(format_args!("{}: {error}", shown(&src))).with_hint(hint)
    })?;
    let limit = limit.unwrap_or(ShardLimit::Bytes(RestoredCheckpoint::SHARD_BYTES));
    let (notes, class) = (restored.notes.clone(), restored.class.clone());
    if dry_run {
        list(&restored, limit, &output, console)?;
        drop(begun);
    } else {
        let mut bar = Bar::new(console);
        let run = RunOptions::default();
        restored
            .write(&checkpoint, limit, begun, &run, &mut |progress| {
                bar.update(progress.written, progress.total, progress.tensor);
                ControlFlow::Continue(())
            })
            .map_err(Failure::new)?;
        drop(bar);
        let class = if class.is_empty() { "a tokenizer" } else { &*class };
        console.note(format_args!("wrote {} ({})", shown(&output), RawStr::from(class)));
    }
    for note in notes {
        console.note(note);
    }
    Ok(Status::Fine)
}

/// Files and tensors that would be written.
fn list(
    restored: &RestoredCheckpoint,
    limit: ShardLimit,
    output: &Path,
    console: Console,
) -> Result<(), Failure> {
    let mut out = console.text();
    for tensor in &restored.tensors {
        let (name, shape) = (RawStr::new(&tensor.name), tensor.shape());
        writeln!(out, "{name}  {shape}  {}", tensor.ggml_type())?;
    }
    for (name, content) in &restored.files {
        writeln!(out, "{name}  {} bytes", content.len())?;
    }
    for (name, tensors) in restored.shards(limit) {
        writeln!(out, "{name}  {} tensors", tensors.len())?;
    }
    let class = RawStr::from(&*restored.class);
    if restored.class.is_empty() {
        writeln!(out, "{}: a tokenizer; nothing was written", shown(output))?;
    } else {
        writeln!(out, "{}: a checkpoint of class {class}; nothing was written", shown(output))?;
    }
    Ok(out.flush()?)
}

/// The file's name without its ending, in the current directory.
fn default_output(src: &Path) -> PathBuf {
    PathBuf::from(src.file_stem().unwrap_or("checkpoint".as_ref()))
}

//! `ggmill convert --to safetensors`: a GGUF file becomes a checkpoint again.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ggmill_arch::{Architecture, Catalogue};
use ggmill_convert::{RestoreOptions, RestoredCheckpoint, check_restorable, restore_checkpoint};
use ggmill_core::{GgmlType, RawStr, keys};
use ggmill_io::NewDirectory;
use ggmill_pipeline::{Checkpoint as _, ErrorKind, GgufCheckpoint, RunOptions, ShardLimit};

use crate::arch_file::catalogue;
use crate::console::Console;
use crate::counted::counted;
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
    /// Convert a GGUF file back to a checkpoint: a directory with config.json, weights and
    /// tokenizer
    #[arg(long = "to", value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The model class to write [default: the best match]
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
    let architecture =
        if vocab_only { None } else { Some(architecture(&src, &checkpoint, &catalogue)?) };
    let output = output.unwrap_or_else(|| default_output(&src));
    let begun = if dry_run {
        NewDirectory::check(&output).map(|()| None)
    } else {
        NewDirectory::create(&output).map(Some)
    }
    .map_err(|error| {
        let hint = (error.kind() == ggmill_io::ErrorKind::Exists).then(|| {
            "an existing directory is not replaced: remove it, or choose a different one with -o"
                .to_owned()
        });
        Failure::new(error).with_hint(hint)
    })?;
    let mut options = RestoreOptions::default();
    (options.ggml_type, options.class, options.no_vocab) = (ggml_type, back.class, no_vocab);
    let restored = match architecture {
        None => RestoredCheckpoint::from_vocabulary(checkpoint.metadata()),
        Some(architecture) => restore_checkpoint(&checkpoint, architecture, &options),
    };
    let restored = restored.map_err(|error| {
        let is_vocabulary = matches!(error.kind(), ErrorKind::Vocabulary | ErrorKind::PreTokenizer);
        let hint =
            (is_vocabulary && !vocab_only).then(|| "--no-vocab omits the tokenizer".to_owned());
        about(&src, &error).with_hint(hint)
    })?;
    let limit = limit.unwrap_or(ShardLimit::Bytes(RestoredCheckpoint::SHARD_BYTES));
    let (notes, class) = (restored.notes.clone(), restored.class.clone());
    let Some(begun) = begun else {
        return list(&restored, limit, &output, console).map(|()| tell(notes, console));
    };
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
    Ok(tell(notes, console))
}

/// The description of a model's architecture. Fails for a file that is not a model.
pub(crate) fn architecture<'c>(
    src: &Path,
    checkpoint: &GgufCheckpoint,
    catalogue: &'c Catalogue,
) -> Result<&'c Architecture, Failure> {
    check_restorable(checkpoint).map_err(|error| {
        let has_vocabulary = checkpoint.metadata().get(keys::TOKENIZER_MODEL).is_some();
        let hint = (checkpoint.tensors().is_empty() && has_vocabulary)
            .then(|| "--vocab-only writes only the files of its tokenizer".to_owned());
        about(src, &error).with_hint(hint)
    })?;
    let name = checkpoint.metadata().str(keys::GENERAL_ARCHITECTURE).map_err(Failure::new)?;
    catalogue.by_name(name).ok_or_else(|| {
        Failure::new(format_args!(
            "{}: there is no description of the architecture {:?}",
            shown(src),
            RawStr::from(name)
        ))
        .with_hint(Some("--arch-file adds a description of your own".to_owned()))
    })
}

fn tell(notes: Vec<String>, console: Console) -> Status {
    for note in notes {
        console.note(note);
    }
    Status::Fine
}

/// An error that names the file.
pub(crate) fn about(src: &Path, error: &ggmill_pipeline::Error) -> Failure {
    match error.path() {
        Some(_) => Failure::new(error),
        None => Failure::new(format_args!("{}: {error}", shown(src))),
    }
}

/// Files and tensors that would be written; shapes as safetensors has them.
fn list(
    restored: &RestoredCheckpoint,
    limit: ShardLimit,
    output: &Path,
    console: Console,
) -> Result<(), Failure> {
    let mut out = console.text();
    for tensor in &restored.tensors {
        let extents = tensor.shape().dimensions().iter().rev().map(u64::to_string);
        let shape = extents.collect::<Vec<_>>().join(" × ");
        writeln!(out, "{}  {shape}  {}", RawStr::new(&tensor.name), tensor.ggml_type())?;
    }
    if !restored.tensors.is_empty() {
        writeln!(out, "(shapes as in safetensors: rows first, the reverse of those in GGUF)")?;
    }
    for (name, content) in &restored.files {
        writeln!(out, "{name}  {} bytes", content.len())?;
    }
    for (name, tensors) in restored.shards(limit) {
        writeln!(out, "{name}  {}", counted(tensors.len(), "tensor"))?;
    }
    let class = RawStr::from(&*restored.class);
    if restored.class.is_empty() {
        writeln!(out, "{}: would contain only a tokenizer; nothing was written", shown(output))?;
    } else {
        writeln!(
            out,
            "{}: would be a checkpoint of class {class}; nothing was written",
            shown(output)
        )?;
    }
    Ok(out.flush()?)
}

/// The file's name without its ending, in the current directory.
fn default_output(src: &Path) -> PathBuf {
    PathBuf::from(src.file_stem().unwrap_or("checkpoint".as_ref()))
}

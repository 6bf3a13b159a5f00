//! `ggmill convert --to safetensors`: a GGUF file becomes a checkpoint again.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ggmill::RestorePlan;
use ggmill_core::{GgmlType, RawStr};
use ggmill_pipeline::ShardLimit;

use crate::console::Console;
use crate::counted::counted;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::progress::Bars;
use crate::source::open_model;

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
    let model = open_model(&request.src)?;
    let output = request.output.unwrap_or_else(|| default_output(&request.src));
    let bars = Bars::new(console);
    let shown_bars = bars.clone();
    let mut builder = ggmill::restore(&model)?
        .no_vocab(request.no_vocab)
        .vocab_only(request.vocab_only)
        .architectures(&request.arch_file)?
        .on_progress(move |progress| shown_bars.show(progress));
    if let Some(ggml_type) = request.ggml_type {
        builder = builder.ggml_type(ggml_type);
    }
    if let Some(class) = request.back.class {
        builder = builder.class(class);
    }
    if let Some(limit) = request.limit {
        builder = builder.split(limit);
    }
    let notes = if request.dry_run {
        let planned = builder.plan(&output)?;
        list(&planned, &output, console)?;
        planned.notes()
    } else {
        let restored = builder.write(&output)?;
        bars.clear();
        let class = if restored.class().is_empty() { "a tokenizer" } else { restored.class() };
        console.note(format_args!("wrote {} ({})", shown(&output), RawStr::from(class)));
        restored.notes().to_vec()
    };
    for note in notes {
        console.tell(&note);
    }
    Ok(Status::Fine)
}

/// Files and tensors that would be written; shapes as safetensors has them.
fn list(planned: &RestorePlan<'_>, output: &Path, console: Console) -> Result<(), Failure> {
    let restored = planned.checkpoint();
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
    for (name, tensors) in planned.shards() {
        writeln!(out, "{name}  {}", counted(tensors, "tensor"))?;
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

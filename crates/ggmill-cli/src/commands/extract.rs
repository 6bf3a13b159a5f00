//! `ggmill extract`: writes tensors or metadata of a model to files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ggmill::{Extract, ExtractFormat};
use ggmill_text::Glob;

use crate::console::{Console, counted};
use crate::files::{check_output, open_model, shown};
use crate::model_output::{print_planned, print_written};
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};

/// Extract tensors or metadata from a model
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill extract model.gguf 'blk.0.*' -o layer0.gguf
  ggmill extract model.gguf token_embd.weight -o embedding.npy
  ggmill extract model.gguf '*norm*' -o norms.safetensors
  ggmill extract model.gguf --key 'tokenizer.*' -o tokenizer-metadata.json

The extension of OUT selects the format; in a directory, each tensor is written to a .npy file of \
its own. Float and integer tensors keep their type; quantized tensors are converted to F32, \
unless --raw keeps their blocks. `ggmill graft` inserts extracted tensors into a model again, \
which is lossless for float and integer tensors, and with --raw for all of them. A JSON file \
contains metadata, in the form that `ggmill edit --set-from` reads.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model
    file: PathBuf,
    /// Tensors to extract, by name: * matches any text, ? one character [default: all]
    #[arg(value_name = "GLOB")]
    tensors: Vec<Glob>,
    /// Metadata to extract, by key (repeatable); without a tensor GLOB, no tensors are extracted
    #[arg(short, long = "key", value_name = "GLOB")]
    keys: Vec<Glob>,
    /// The file to write: .gguf, .safetensors, .npy, .json, or a directory; - for JSON on standard
    /// output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The output format, if the extension of OUT does not determine it
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Keep quantized tensors as the bytes of their blocks
    #[arg(long)]
    raw: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    /// Print what would be written, with exact sizes and offsets, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Gguf,
    Safetensors,
    Npy,
    Json,
}

impl From<Format> for ExtractFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Gguf => Self::Gguf,
            Format::Safetensors => Self::Safetensors,
            Format::Npy => Self::Npy,
            Format::Json => Self::Json,
        }
    }
}

impl Args {
    fn format(&self) -> Result<ExtractFormat, Failure> {
        match self.format {
            Some(format) => Ok(format.into()),
            None if self.output.as_os_str() == "-" => Ok(ExtractFormat::Json),
            None => Ok(ExtractFormat::of(&self.output)?),
        }
    }

    /// Returns `true` if the output is a directory with a file for each tensor.
    fn is_directory(&self) -> bool {
        let last = self.output.as_os_str().as_encoded_bytes().last();
        self.output.is_dir() || last.is_some_and(|&last| std::path::is_separator(last.into()))
    }
}

const NOTHING: &str = "nothing was written";

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let format = args.format()?;
    let is_text = format == ExtractFormat::Json && args.output.as_os_str() == "-";
    // The files in a directory are checked when their names are known.
    let is_directory = format == ExtractFormat::Npy && args.is_directory();
    if !is_text && !is_directory {
        check_output(&args.output, std::slice::from_ref(&args.file), args.force)?;
    }
    let bars = Bars::new(console);
    let builder = ggmill::extract(&open_model(&args.file)?)?
        .tensors(args.tensors.iter().cloned())
        .keys(args.keys.iter().cloned())
        .format(format)
        .raw(args.raw)
        .overwrite(args.force);
    let builder = with_bars!(builder, bars);
    if is_text {
        return print_json(&builder, args.dry_run, console);
    }
    let plan = builder.plan(&args.output)?;
    if args.dry_run {
        if let Some(planned) = plan.planned() {
            print_planned(planned, false, console)?;
            return Ok(Status::Fine);
        }
        for (path, len) in plan.files() {
            announce(&path, len, console)?;
        }
        plan.check_outputs()?;
        console.note(NOTHING);
        return Ok(Status::Fine);
    }
    let extracted = plan.write()?;
    bars.clear();
    if let Some(written) = extracted.written() {
        return print_written(written, false, console);
    }
    let output = shown(&args.output);
    if format == ExtractFormat::Json {
        console.note(format_args!("wrote {output}"));
    } else {
        let tensors = counted(extracted.tensors(), "tensor");
        console.note(format_args!("wrote {output}: {tensors}"));
    }
    Ok(Status::Fine)
}

/// Prints metadata as JSON.
fn print_json(builder: &Extract<'_>, dry_run: bool, console: Console) -> Result<Status, Failure> {
    let text = builder.metadata_json()?;
    if dry_run {
        announce(Path::new("-"), text.len() as u64, console)?;
        console.note(NOTHING);
        return Ok(Status::Fine);
    }
    let mut out = console.bytes();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Status::Fine)
}

/// Prints the line of a dry run about a file.
fn announce(path: &Path, len: u64, console: Console) -> Result<(), Failure> {
    let mut out = console.text();
    writeln!(out, "{}  {len} bytes", shown(path))?;
    Ok(out.flush()?)
}

//! `ggmill graft`: inserts tensors and metadata of other files into a model.

use std::path::{Path, PathBuf};

use ggmill::Renaming;
use ggmill_text::Glob;

use crate::commands::repack::Form;
use crate::console::Console;
use crate::files::{check_output, open_model};
use crate::model_output::make;
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};

/// Insert tensors and metadata into a model, or remove, rename or reorder existing tensors
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill graft model.gguf --from token_embd.weight=embedding.npy -o new.gguf
  ggmill graft model.gguf --from other.gguf --take 'output*' -o new-output.gguf
  ggmill graft model.gguf --drop 'mm.*' --rename 'old.*=new.*' -o renamed.gguf
  ggmill graft model.gguf --from tokenizer-metadata.json -o new-tokenizer.gguf

A donor is a file to take tensors or metadata from: GGUF, .safetensors, .npy (named after its \
tensor) or .json with metadata, as `ggmill extract` writes them, or a PyTorch file. NAME=FILE gives \
the only tensor of a donor a different name. A tensor replaces the one with the same name; new \
tensors are appended. A donor that replaces nothing is rejected unless --add is given. Then tensors \
are dropped, renamed and reordered.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model
    file: PathBuf,
    /// A file to take tensors or metadata from (repeatable): .gguf, .safetensors, .npy, .pt or
    /// .json; NAME= gives the tensor's name in the model
    #[arg(long = "from", value_name = "[NAME=]DONOR")]
    donors: Vec<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Tensors to take from the donors, by name [default: all]
    #[arg(long, value_name = "GLOB", requires = "donors")]
    take: Vec<Glob>,
    /// Metadata to take from donors that are GGUF files [default: none]
    #[arg(long, value_name = "GLOB", requires = "donors")]
    take_key: Vec<Glob>,
    /// Allow adding tensors when the donor replaces none
    #[arg(long, requires = "donors")]
    add: bool,
    /// Encode a tensor in the type of the tensor that it replaces
    #[arg(long)]
    keep_types: bool,
    /// Tensors to remove
    #[arg(long, value_name = "GLOB")]
    drop: Vec<Glob>,
    /// Rename tensors; one * on each side matches the same text
    #[arg(long, value_name = "OLD=NEW")]
    rename: Vec<Renaming>,
    /// Tensors to write first; those of further --order options follow (repeatable)
    #[arg(long, value_name = "GLOB")]
    order: Vec<Glob>,
    #[command(flatten)]
    form: Form,
    /// Write tensors whose values all become zero in their types, instead of failing
    #[arg(long)]
    allow_zeros: bool,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print what would be written, with exact sizes and offsets, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the plan (type and offset of each tensor) as JSON instead of a summary
    #[arg(long)]
    json: bool,
}

/// A donor: a file, and the name that its tensor gets in the model.
struct Donor {
    path: PathBuf,
    target: Option<String>,
}

impl Donor {
    /// Parses `[NAME=]FILE`. If a file with the whole argument as its name exists, it is the donor.
    fn parse(arg: &Path) -> Self {
        let split = arg.to_str().and_then(|text| text.split_once('='));
        match split.filter(|(name, file)| !name.is_empty() && !file.is_empty() && !arg.exists()) {
            Some((name, file)) => Self { path: file.into(), target: Some(name.to_owned()) },
            None => Self { path: arg.to_owned(), target: None },
        }
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let donors: Vec<Donor> = args.donors.iter().map(|arg| Donor::parse(arg)).collect();
    let files: Vec<PathBuf> =
        donors.iter().map(|donor| &donor.path).chain([&args.file]).cloned().collect();
    check_output(&args.output, &files, args.force)?;
    let bars = Bars::new(console);
    let mut builder = ggmill::graft(&open_model(&args.file)?)?
        .overwrite(args.force)
        .allow_zeros(args.allow_zeros)
        .take(args.take.iter().cloned())
        .take_keys(args.take_key.iter().cloned())
        .add(args.add)
        .keep_types(args.keep_types)
        .drop(args.drop.iter().cloned())
        .rename(args.rename.iter().cloned())
        .order(args.order.iter().cloned())
        .form(args.form.into());
    for donor in &donors {
        builder = builder.donor(&donor.path, donor.target.as_deref());
    }
    let planned = with_bars!(builder, bars).plan(&args.output)?;
    make(planned, args.dry_run, args.json, &bars, console)
}

//! `ggmill repack`: rewrites a model with a different alignment, byte order or format version.

use std::path::PathBuf;

use clap::ValueEnum;
use ggmill_core::{Alignment, Endian};
use ggmill_edit::RepackOptions;

use crate::console::Console;
use crate::files::{check_output, open_model};
use crate::model_output::make;
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};

/// Rewrite a model with a different alignment, byte order or format version
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill repack model.gguf -o model-s390x.gguf --endian big
  ggmill repack model.gguf -o aligned.gguf --align 4096
  ggmill repack model.gguf -o old.gguf --format-version 2

Everything else is unchanged. Byte order is changed in the header and within the blocks of every \
type: scales, and packed bits that are read as words.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model
    file: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    form: Form,
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

/// The options for alignment, byte order and format version of the output.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Form {
    /// Alignment of tensor data in bytes: a multiple of 8; llama.cpp requires a power of two
    #[arg(long, value_name = "N", value_parser = alignment)]
    align: Option<Alignment>,
    /// Byte order of the output
    #[arg(long, value_name = "ORDER", value_enum)]
    endian: Option<Order>,
    /// GGUF version of the output
    #[arg(long, value_name = "2|3", value_parser = clap::value_parser!(u32).range(2..=3))]
    format_version: Option<u32>,
}

impl From<Form> for RepackOptions {
    fn from(form: Form) -> Self {
        let mut options = Self::default();
        options.alignment = form.align;
        options.endian = form.endian.map(Endian::from);
        options.version = form.format_version;
        options
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Big,
    Little,
}

impl From<Order> for Endian {
    fn from(order: Order) -> Self {
        match order {
            Order::Big => Self::Big,
            Order::Little => Self::Little,
        }
    }
}

fn alignment(text: &str) -> Result<Alignment, String> {
    let expected = || format!("expected a multiple of 8 up to {MAX_ALIGNMENT}");
    let number =
        text.parse().ok().filter(|&number: &u64| number <= MAX_ALIGNMENT).ok_or_else(expected)?;
    Alignment::new(number).map_err(|_| expected())
}

/// The maximum alignment that readers accept by default.
const MAX_ALIGNMENT: u64 = 1 << 24;

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    check_output(&args.output, std::slice::from_ref(&args.file), args.force)?;
    let bars = Bars::new(console);
    let model = open_model(&args.file)?;
    let mut builder = with_bars!(ggmill::repack(&model)?.overwrite(args.force), bars);
    let Form { align, endian, format_version } = args.form;
    if let Some(alignment) = align {
        builder = builder.alignment(alignment);
    }
    if let Some(order) = endian {
        builder = builder.endian(order.into());
    }
    if let Some(version) = format_version {
        builder = builder.version(version);
    }
    make(builder.plan(&args.output)?, args.dry_run, args.json, &bars, console)
}

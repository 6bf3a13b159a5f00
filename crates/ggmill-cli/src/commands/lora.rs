//! `ggmill lora`: converts adapters, and merges them into models.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ggmill::Model;
use ggmill_core::{FileType, RawStr};
use ggmill_pipeline::formats::PeftAdapter;

use crate::commands::convert::{OutputOptions, run_builder};
use crate::commands::quantize::without_extension;
use crate::console::Console;
use crate::files::{check_output, check_shard_prefix, open_model, shown};
use crate::model_output::make;
use crate::options::ShardLimitArgs;
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};

/// Merge LoRA adapters into a model; convert adapters
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Merge adapters into a model; tensor types are kept
    #[command(override_usage = "ggmill lora merge [OPTIONS] --output <OUT> <BASE> \
                                <ADAPTER[=SCALE]>...")]
    #[command(after_help = "\
Examples:
  ggmill lora merge model.gguf adapter.gguf -o merged.gguf
  ggmill lora merge model-Q4_K_M.gguf a.gguf=0.7 b.gguf -o merged.gguf

A weight W becomes W + SCALE * alpha / rank * B * A, summed over the adapters in F32 and encoded \
once, in the type of W. Tensors that no adapter changes are copied byte for byte. `ggmill \
convert ADAPTER_DIR --base BASE_DIR` creates adapter.gguf from a PEFT adapter.")]
    Merge(Merge),
    /// Convert a PEFT adapter to a GGUF adapter: the same as `ggmill convert ADAPTER_DIR`
    #[command(after_help = "\
Example:
  ggmill lora convert my-adapter/ --base Llama-3.2-1B/ -o my-adapter.gguf")]
    Convert(Convert),
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
struct Convert {
    /// The adapter: a directory with adapter_config.json and its weights
    src: PathBuf,
    /// The base model: its directory or its GGUF file [default: the directory named in
    /// the adapter, if it is below the adapter's]
    #[arg(long, value_name = "BASE")]
    base: Option<PathBuf>,
    /// The file to write [default: SRC's name and the type, in the current directory]
    #[arg(short, long, visible_alias = "outfile", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Type of the tensors: F32, F16, BF16 or Q8_0
    #[arg(
        short = 't',
        long = "type",
        visible_alias = "outtype",
        value_name = "TYPE",
        default_value = "F32"
    )]
    file_type: FileType,
    /// The adapter's name in the metadata [default: from SRC]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// A JSON file with metadata (general.author, …) that overrides that of SRC
    #[arg(long, value_name = "FILE")]
    metadata: Option<PathBuf>,
    /// An architecture description (TOML), or a directory of them, to use in addition to the
    /// built-in ones (repeatable)
    #[arg(long, value_name = "PATH")]
    arch_file: Vec<PathBuf>,
    /// Write tensors whose values all become zero in their types, instead of failing
    #[arg(long)]
    allow_zeros: bool,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// Print what would be written, with exact sizes and offsets, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the plan (type and offset of each tensor) as JSON instead of a summary
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
struct Merge {
    /// The model: a file, or any shard of a split model
    #[arg(required_unless_present = "model")]
    base: Option<PathBuf>,
    /// GGUF adapters, each with an optional scale (1 if omitted)
    #[arg(required_unless_present_any = ["model", "lora", "lora_scaled"])]
    #[arg(value_name = "ADAPTER[=SCALE]")]
    adapters: Vec<PathBuf>,
    /// The model, as `llama-export-lora` has it
    #[arg(short, long, hide = true, value_name = "BASE")]
    model: Option<PathBuf>,
    /// An adapter, as `llama-export-lora` has it
    #[arg(long, hide = true, value_name = "ADAPTER")]
    lora: Vec<PathBuf>,
    /// An adapter and its factor, as `llama-export-lora` has them
    #[arg(long, hide = true, num_args = 2, allow_hyphen_values = true, value_names = ["ADAPTER", "SCALE"])]
    lora_scaled: Vec<OsString>,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    shard_limit: ShardLimitArgs,
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

pub(crate) fn run(args: Args, console: Console) -> Result<Status, Failure> {
    match args.command {
        Command::Merge(merge) => run_merge(&merge, console),
        Command::Convert(convert) => run_convert(convert, console),
    }
}

fn run_convert(args: Convert, console: Console) -> Result<Status, Failure> {
    let bars = Bars::new(console);
    let shown_bars = bars.clone();
    let mut builder = ggmill::convert(&args.src)?
        .adapter()
        .to(&args.file_type.to_string())?
        .architectures(&args.arch_file)?
        .overwrite(args.force)
        .allow_zeros(args.allow_zeros)
        .on_progress(move |progress| shown_bars.show(progress));
    if let Some(base) = args.base {
        builder = builder.base(base);
    }
    if let Some(name) = args.name {
        builder = builder.name(name);
    }
    if let Some(path) = &args.metadata {
        builder = builder.metadata(path)?;
    }
    let options =
        OutputOptions { output: args.output.as_deref(), dry_run: args.dry_run, json: args.json };
    run_builder(builder, options, &bars, console)
}

/// Parses `ADAPTER[=SCALE]`. If a file with the whole argument as its name exists, it is the adapter.
fn parse_adapter(arg: &Path) -> Result<ScaledAdapter, Failure> {
    let split = arg.to_str().and_then(|text| text.rsplit_once('='));
    let Some((path, scale)) = split.filter(|_| !arg.exists()) else {
        return Ok((arg.to_owned(), 1.0));
    };
    Ok((path.into(), parse_scale(scale, arg)?))
}

/// Parses the scale of an adapter, which the error names.
fn parse_scale(scale: &str, adapter: &Path) -> Result<f32, Failure> {
    let number = scale.parse::<f32>().ok().filter(|scale| scale.is_finite());
    number.ok_or_else(|| {
        let scale = RawStr::from(scale);
        Failure::new(format_args!("{}: scale {scale:?}, expected a number", shown(adapter)))
    })
}

/// The path and the scale of an adapter.
type ScaledAdapter = (PathBuf, f32);

impl Merge {
    /// Returns the path of the model, and the adapters. With `--model`, all positional arguments are
    /// adapters.
    fn files(&self) -> Result<(&Path, Vec<ScaledAdapter>), Failure> {
        let mut positionals = self.base.iter().chain(&self.adapters);
        let base = self.model.as_ref().or_else(|| positionals.next());
        let base = base.ok_or_else(|| Failure::new("expected a model"))?;
        let adapters = positionals.chain(&self.lora).map(|arg| parse_adapter(arg));
        let mut adapters: Vec<ScaledAdapter> = adapters.collect::<Result<_, _>>()?;
        for pair in self.lora_scaled.chunks(2) {
            let [path, scale] = pair else { continue };
            let scale = parse_scale(&scale.to_string_lossy(), Path::new(path))?;
            adapters.push((path.into(), scale));
        }
        if adapters.is_empty() {
            return Err(Failure::new("expected an adapter"));
        }
        Ok((base, adapters))
    }
}

fn run_merge(args: &Merge, console: Console) -> Result<Status, Failure> {
    let (base, adapters) = args.files()?;
    let files: Vec<PathBuf> =
        adapters.iter().map(|(path, _)| path.clone()).chain([base.to_owned()]).collect();
    let split = args.shard_limit.options();
    match split {
        None => check_output(&args.output, &files, args.force)?,
        Some(_) => check_shard_prefix(&without_extension(&args.output))?,
    }
    let bars = Bars::new(console);
    let mut builder =
        ggmill::merge_lora(&open_model(base)?)?.overwrite(args.force).allow_zeros(args.allow_zeros);
    for (path, scale) in &adapters {
        builder = builder.adapter(&open_adapter(path)?, *scale)?;
    }
    if let Some(split) = split {
        builder = builder.split(split.limit);
    }
    let planned = with_bars!(builder, bars).plan(&args.output)?;
    make(planned, args.dry_run, args.json, &bars, console)
}

/// Opens a GGUF adapter. The error for a PEFT adapter says that it must be converted first.
fn open_adapter(path: &Path) -> Result<Model, Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = if path.is_dir() { path } else { parent.unwrap_or(Path::new(".")) };
    let is_weights = || path.is_dir() || path.extension().is_none_or(|found| found != "gguf");
    open_model(path).map_err(|failure| {
        if !(is_weights() && PeftAdapter::is_at(directory)) {
            return failure;
        }
        let message = format!("{}: is a PEFT adapter, expected a GGUF adapter", shown(path));
        let directory = shown(directory);
        Failure::new(message)
            .with_hint(Some(format!("`ggmill convert {directory} --base BASE_DIR` converts it")))
    })
}

//! `ggmill split`: splits a model into shards.

use std::path::PathBuf;

use ggmill_pipeline::ShardLimit;

use crate::commands::merge;
use crate::console::Console;
use crate::files::open_model;
use crate::model_output::make;
use crate::options::byte_size;
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};

/// Split a model into shards
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill split model.gguf model --max-size 2G
  ggmill split model.gguf shards/model --max-tensors 64 --no-tensor-first-split

The shards are named PREFIX-00001-of-00009.gguf, …, as llama-gguf-split names them. Tensor data \
is copied by the kernel where possible. Size limits count tensor data only, not headers.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model that is to be split again
    file: PathBuf,
    /// The prefix of the shards' names, including the directory; with --merge the file to write
    prefix: PathBuf,
    /// Merge the shards of a split model, as `ggmill merge` does
    #[arg(long, conflicts_with_all = ["max_tensors", "max_size", "no_tensor_first_split"])]
    merge: bool,
    /// Split: the default
    #[arg(long, hide = true, conflicts_with = "merge")]
    split: bool,
    /// Maximum number of tensors per shard
    #[arg(long, alias = "split-max-tensors", value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "max_size")]
    max_tensors: u64,
    /// Maximum size of the tensor data per shard: a number and K, M or G (powers of 1000; KiB, MiB
    /// and GiB are powers of 1024)
    #[arg(long, alias = "split-max-size", value_name = "N(K|M|G)", value_parser = byte_size)]
    max_size: Option<u64>,
    /// Write no tensors to the first shard, so that it is small
    #[arg(long)]
    no_tensor_first_split: bool,
    /// Replace shards that exist
    #[arg(long)]
    force: bool,
    /// Print which shards would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    if args.merge {
        let (shard, output) = (&args.file, &args.prefix);
        let args = merge::Args::of_split(shard, output, args.force, args.dry_run, args.json);
        return merge::run(&args, console);
    }
    let bars = Bars::new(console);
    let model = open_model(&args.file)?;
    let limit = args.max_size.map_or(ShardLimit::Tensors(args.max_tensors), ShardLimit::Bytes);
    let builder = ggmill::split(&model)?
        .limit(limit)
        .no_tensor_first(args.no_tensor_first_split)
        .overwrite(args.force);
    let planned = with_bars!(builder, bars).plan(&args.prefix)?;
    make(planned, args.dry_run, args.json, &bars, console)
}

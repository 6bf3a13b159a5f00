//! `ggmill estimate`: estimates the memory that a model needs to run.

mod text;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

use ggmill::{Estimated, Model};
use ggmill_arch::graph::STEPS_KEY;
use ggmill_core::{ByteSize, GgmlType, keys};
use ggmill_estimate::json::document;
use ggmill_estimate::{CACHE_TYPES, Estimate, Note, Options, TensorOverride, Unknown};

use crate::console::Console;
use crate::files::open_header;
use crate::hints::ARCH_FILE_HINT;
use crate::options::{byte_size, byte_size_or_none};
use crate::outcome::{Failure, Status};

/// Estimate the memory needed to run a model, by device and purpose
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill estimate model.gguf
  ggmill estimate model.gguf --ctx 8192,32768 --cache-type f16,q8_0
  ggmill estimate model.gguf --ctx 16384 --gpu-layers 99 --tensor-split 3,1
  ggmill estimate model.gguf --fit 24GiB --cache-type q8_0

Weights, KV caches and recurrent states match llama.cpp's allocation to the byte. Compute buffers \
are estimated; what some GPUs need beyond them is listed as not included, like anything else that \
cannot be estimated. Only the header of the file is read.")]
#[expect(clippy::struct_excessive_bools, reason = "options are independent of each other")]
pub(crate) struct Args {
    /// The model: a file, any shard of a split model, or - for standard input
    file: PathBuf,
    /// Total context length in tokens, shared by all sequences; a comma-separated list prints a
    /// table [default: the length that the model was trained with]
    #[arg(long, short = 'c', value_name = "N", value_delimiter = ',', value_parser = tokens)]
    ctx: Vec<u64>,
    /// Logical batch size: number of tokens submitted together
    #[arg(long, short = 'b', value_name = "N", default_value_t = 2048)]
    batch: u64,
    /// Physical batch size: number of tokens computed together
    #[arg(long, value_name = "N", default_value_t = 512)]
    ubatch: u64,
    /// Number of parallel sequences
    #[arg(long, short = 'p', value_name = "N", default_value_t = 1)]
    parallel: u64,
    /// Use one KV cache for all sequences
    #[arg(long)]
    kv_unified: bool,
    /// KV cache type; a comma-separated list prints a table
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = cache_type, default_value = "f16")]
    cache_type: Vec<GgmlType>,
    /// KV cache type for K, if different
    #[arg(long, value_name = "TYPE", value_parser = cache_type)]
    cache_type_k: Option<GgmlType>,
    /// KV cache type for V, if different
    #[arg(long, value_name = "TYPE", value_parser = cache_type)]
    cache_type_v: Option<GgmlType>,
    /// Whether flash attention is used; auto uses it if the architecture supports it
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "on", "off"])]
    flash_attn: String,
    /// Use full-size KV caches for sliding-window attention (SWA) layers
    #[arg(long)]
    swa_full: bool,
    /// Number of layers on GPUs, starting from the last, or all; the output layer counts as one layer
    #[arg(long, alias = "ngl", value_name = "N", value_parser = layers, default_value = "0", allow_negative_numbers = true, help_heading = "Devices")]
    gpu_layers: u64,
    /// Proportions in which the layers are divided among GPUs, such as 3,1 [default: one GPU]
    #[arg(long, value_name = "SHARE", value_delimiter = ',', help_heading = "Devices")]
    tensor_split: Vec<f32>,
    /// Place tensors whose names match PATTERN, a regular expression, on DEVICE: CPU, GPU0, GPU1, …
    /// (in llama.cpp CUDA0, Vulkan0 and so on). The first match wins; repeatable, or separated by
    /// commas
    #[arg(long, value_name = "PATTERN=DEVICE", value_delimiter = ',', help_heading = "Devices")]
    override_tensor: Vec<TensorOverride>,
    /// Keep KV caches and recurrent states in host memory
    #[arg(long, help_heading = "Devices")]
    no_kv_offload: bool,
    /// Find what fits on GPUs with this much memory: with --ctx, the largest number of layers;
    /// otherwise the longest context with all layers or, if that is below 4096 tokens, the largest
    /// number of layers. One size per GPU, in G or GiB, separated by commas
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = byte_size, conflicts_with = "gpu_layers", help_heading = "Devices")]
    fit: Vec<u64>,
    /// Memory to keep free on each GPU, for what is not in the estimate
    #[arg(long, value_name = "SIZE", value_parser = byte_size_or_none, default_value = "1GiB", requires = "fit", help_heading = "Devices")]
    reserve: u64,
    /// A multimodal projector (mmproj file), loaded with the model
    #[arg(long, value_name = "FILE", help_heading = "Files loaded with the model")]
    mmproj: Option<PathBuf>,
    /// A LoRA adapter, loaded with the model (repeatable)
    #[arg(long, value_name = "FILE", help_heading = "Files loaded with the model")]
    lora: Vec<PathBuf>,
    /// A draft model for speculative decoding, run with the same options
    #[arg(long, value_name = "FILE", help_heading = "Files loaded with the model")]
    draft: Option<PathBuf>,
    /// An architecture description (TOML), or a directory of them, to use in addition to the
    /// built-in ones (repeatable)
    #[arg(long, value_name = "PATH")]
    arch_file: Vec<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Parses a number of tokens; the suffix `k` multiplies it by 1,024.
fn tokens(text: &str) -> Result<u64, String> {
    let (number, factor) = text.strip_suffix(['k', 'K']).map_or((text, 1), |number| (number, 1024));
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
        Some(0) => Err("expected a number from 1; without --ctx, the estimate is for the length \
                        that the model was trained with"
            .to_owned()),
        Some(tokens) => Ok(tokens),
        None => Err(match text {
            "moe" => "-cmoe of llama.cpp is --override-tensor 'ffn_.*_exps=CPU'".to_owned(),
            "tk" => "-ctk of llama.cpp is --cache-type-k TYPE".to_owned(),
            "tv" => "-ctv of llama.cpp is --cache-type-v TYPE".to_owned(),
            _ => "expected a number of tokens, such as 8192".to_owned(),
        }),
    }
}

/// Parses the type of a cache. The estimate fails for types that caches cannot have.
fn cache_type(text: &str) -> Result<GgmlType, String> {
    text.parse().map_err(|error| {
        let types: Vec<String> = CACHE_TYPES.iter().map(GgmlType::to_string).collect();
        format!("{error}, expected one of {}", types.join(", "))
    })
}

/// Parses a number of layers; a number above the model's selects all layers.
fn layers(text: &str) -> Result<u64, String> {
    match text {
        "all" => Ok(u64::MAX),
        // Values of llama.cpp.
        "auto" | "-1" => {
            Err("--fit SIZE, such as --fit 8G, finds the number of layers that fits".to_owned())
        }
        _ => text.parse().map_err(|_| "expected a number of layers, or all".to_owned()),
    }
}

impl Args {
    /// Returns the usable memory of each device, in bytes.
    fn sizes(&self) -> Result<Vec<u64>, Failure> {
        let usable = |&size: &u64| {
            size.checked_sub(self.reserve).filter(|&usable| usable > 0).ok_or_else(|| {
                let [size, reserve] = [size, self.reserve].map(ByteSize::from);
                Failure::new(format_args!("--fit {size}: --reserve {reserve} leaves nothing"))
                    .with_hint(Some(
                    "--fit takes the memory of the device, as in 24G; a smaller --reserve leaves \
                         more of it"
                        .to_owned(),
                ))
            })
        };
        self.fit.iter().map(usable).collect()
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let sizes = args.sizes()?;
    let model = open_header(&args.file)?;
    let mut builder = ggmill::estimate(&model)?
        .architectures(&args.arch_file)?
        .batch(args.batch)
        .micro_batch(args.ubatch)
        .sequences(args.parallel)
        .unified(args.kv_unified)
        .flash_attention(args.flash_attn.parse().map_err(Failure::new)?)
        .full_windows(args.swa_full)
        .gpu_layers(args.gpu_layers)
        .tensor_split(&*args.tensor_split)
        .tensor_overrides(args.override_tensor.iter().cloned())
        .context_on_host(args.no_kv_offload);
    if let Some(path) = &args.mmproj {
        builder = builder.projector(&open_header(path)?);
    }
    for path in &args.lora {
        builder = builder.adapter(&open_header(path)?);
    }
    if let Some(path) = &args.draft {
        builder = builder.draft(&open_header(path)?);
    }
    let contexts: Vec<Option<u64>> =
        if args.ctx.is_empty() { vec![None] } else { args.ctx.iter().copied().map(Some).collect() };
    let (mut cases, mut notes) = (Vec::new(), BTreeSet::new());
    for context in contexts {
        for &cache_type in &args.cache_type {
            builder = builder
                .key_type(args.cache_type_k.unwrap_or(cache_type))
                .value_type(args.cache_type_v.unwrap_or(cache_type));
            if let Some(tokens) = context {
                builder = builder.context(tokens);
            }
            let found = if args.fit.is_empty() { builder.run() } else { builder.fit(&sizes) };
            let Estimated { options, estimate, .. } = found?;
            notes.extend(estimate.notes.iter().cloned());
            cases.push((options, estimate));
        }
    }
    if args.json {
        write_json(&model, &cases, console)?;
    } else {
        text::write(&cases, console)?;
    }
    print_notes(&model, &cases, &notes, console);
    Ok(Status::Fine)
}

/// Prints the notes of the estimates, and a hint for an unknown architecture.
fn print_notes(
    model: &Model,
    cases: &[(Options, Estimate)],
    notes: &BTreeSet<Note>,
    console: Console,
) {
    for note in notes {
        console.note(note);
    }
    let is_unknown = |unknown: &Unknown| matches!(unknown, Unknown::Architecture(_));
    if cases.iter().any(|(_, estimate)| estimate.unknown.iter().any(is_unknown)) {
        let stored = model.metadata().get(STEPS_KEY);
        let why = if stored.is_some() {
            "the computation graph in the file does not describe the caches; "
        } else {
            ""
        };
        console.note(format_args!("{why}{ARCH_FILE_HINT}"));
    }
}

fn write_json(
    model: &Model,
    cases: &[(Options, Estimate)],
    console: Console,
) -> Result<(), Failure> {
    let architecture = model.metadata().str(keys::GENERAL_ARCHITECTURE).ok();
    let mut out = console.bytes();
    let cases = cases.iter().map(|(options, estimate)| (options, estimate));
    ggmill_text::json::write_pretty(&mut out, &document(architecture, cases))?;
    out.flush()?;
    Ok(())
}

//! `ggmill quantize`: quantizes the tensors of a model.

mod options;
mod positionals;
mod report;

use std::path::{Path, PathBuf};

use ggmill::{Hint, Model, Quantize};
use ggmill_quantize::{Goal, Target};

use self::options::MeasureArgs;
pub(crate) use self::options::{CalibrateArgs, TypeArgs, with_types};
use self::positionals::{Positionals, similar_types};
use self::report::{Report, compare};
use crate::console::Console;
use crate::files::{check_output, check_shard_prefix, open_model};
use crate::hints::{self, token_ids};
use crate::model_output::{print_planned, print_written};
use crate::options::{ShardLimitArgs, byte_size, number_of_threads};
use crate::outcome::{Failure, Status};
use crate::progress::Bars;

/// Quantize the tensors of a model to make it smaller
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(
    override_usage = "ggmill quantize [OPTIONS] IN [OUT] TYPE [THREADS]\n       ggmill quantize \
                      [OPTIONS] IN [OUT] <--target-size SIZE|--target-bpw BITS>\n       ggmill \
                      quantize [OPTIONS] IN [OUT] [TYPE] --plan FILE\n       ggmill quantize \
                      [OPTIONS] IN --compare TYPE,TYPE,…",
    after_help = "\
Examples:
  ggmill quantize model-F16.gguf Q4_K_M
  ggmill quantize model-F16.gguf small.gguf IQ2_XS --imatrix imatrix.gguf
  ggmill quantize model-F16.gguf out.gguf Q4_K_M --tensor-type 'ffn_down=q6_k'
  ggmill quantize model-F16.gguf out.gguf --target-size 4.2G --report error.html
  ggmill quantize model-F16.gguf --compare Q4_K_M,Q5_K_M,Q6_K
  ggmill quantize model-F16.gguf --target-bpw 4.5 --dry-run --json > plan.json
  ggmill quantize model-F16.gguf out.gguf --plan plan.json
  ggmill quantize in.gguf out.gguf --target-bpw 4.5 --measure wiki.txt
  ggmill quantize in.gguf out.gguf Q4_K_M --calibrate wiki.txt

TYPE is a type name or number, as in llama-quantize: Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K \
Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS \
IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4_MOE NVFP4 BF16 F16 F32. Q3_K, Q4_K and Q5_K \
are aliases of Q3_K_M, Q4_K_M and Q5_K_M; COPY keeps all types. `ggmill explain types` lists \
the types, and `ggmill explain TYPE` describes one. Models of any architecture can be quantized. IN may be any shard of a \
split model; OUT is one file unless shards are requested.

Roles for --role-file: token_embedding position_embedding token_type_embedding output norm bias \
rope_factors attention.q attention.k attention.v attention.qkv attention.output attention.q_a \
attention.q_b attention.kv_a attention.kv_b attention.gate attention.sinks ffn.gate ffn.up \
ffn.down ffn.gate_up ffn.router ffn.gate_experts ffn.up_experts ffn.down_experts \
ffn.gate_up_experts ffn.gate_shared ffn.up_shared ffn.down_shared ssm.in ssm.out ssm.conv ssm.x \
ssm.dt ssm.a ssm.d time_mix channel_mix classifier other"
)]
pub(crate) struct Args {
    /// The input model, the output file (default: ggml-model-TYPE.gguf in the same directory), the
    /// type and the number of threads
    #[arg(value_name = "IN [OUT] TYPE [THREADS]", required = true, num_args = 1..=4)]
    words: Vec<PathBuf>,
    /// The type, as an alternative to the positional TYPE
    #[arg(long = "type", value_name = "TYPE", value_parser = target)]
    target: Option<Target>,
    /// Print the size and bits per weight for each of these types, and write nothing
    #[arg(
        long,
        value_name = "TYPE,TYPE,…",
        value_delimiter = ',',
        value_parser = target,
        conflicts_with_all = ["target", "target_size", "target_bpw", "plan", "report", "force", "calibration"]
    )]
    compare: Vec<Target>,
    /// Number of threads [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = number_of_threads)]
    threads: Option<usize>,
    #[command(flatten)]
    types: TypeArgs,
    /// A description of the model's architecture (TOML), which assigns roles to its tensors
    #[arg(long, value_name = "FILE", help_heading = "Types of individual tensors")]
    arch_file: Vec<PathBuf>,
    /// Choose the tensor types with the lowest quantization error for a file of at most this size,
    /// such as 4.2G or 4.2GiB
    #[arg(long, value_name = "SIZE", value_parser = byte_size, help_heading = "Target size", conflicts_with_all = ["target", "pure", "target_bpw", "plan"])]
    target_size: Option<u64>,
    /// Choose the tensor types with the lowest quantization error for at most this many bits per
    /// weight
    #[arg(long, value_name = "BITS", help_heading = "Target size", conflicts_with_all = ["target", "pure", "plan"])]
    target_bpw: Option<f64>,
    #[command(flatten)]
    rounding: CalibrateArgs,
    #[command(flatten)]
    measuring: MeasureArgs,
    /// Read tensor types from a plan, the output of --json. Without TYPE, the plan must list every
    /// tensor; with TYPE, it need only list the tensors that get a different type
    #[arg(long, value_name = "FILE", help_heading = "Target size")]
    plan: Option<PathBuf>,
    /// Write the quantization error of each tensor: HTML if FILE ends in .html, JSON if it ends in
    /// .json, otherwise text; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    report: Option<PathBuf>,
    /// Remove layers, and renumber the others
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = layer, conflicts_with = "calibration")]
    prune_layers: Vec<u64>,
    /// Allow requantizing tensors that are already quantized, which loses quality
    #[arg(long)]
    allow_requantize: bool,
    /// Write tensors whose values all become zero in their types, instead of failing
    #[arg(long)]
    allow_zeros: bool,
    /// Write one shard for each shard of IN: OUT-00001-of-00009.gguf, …
    #[arg(long, conflicts_with_all = ["split_max_size", "split_max_tensors"], help_heading = "Shards")]
    keep_split: bool,
    #[command(flatten)]
    shard_limit: ShardLimitArgs,
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

/// Parses a type to quantize to.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    text.parse::<Target>().map_err(|_| {
        let similar = similar_types(text).map(|similar| format!("not a type, {similar}"));
        let message = similar.unwrap_or_else(|| "expected a type such as Q4_K_M".to_owned());
        format!("{message}; `ggmill explain types` lists all")
    })
}

fn layer(number: &str) -> Result<u64, String> {
    number.trim().parse().map_err(|_| "expected layer numbers, such as 3,4,10".to_owned())
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let goal = args.target_size.map(Goal::Size).or(args.target_bpw.map(Goal::BitsPerWeight));
    let is_comparison = !args.compare.is_empty();
    let Positionals { input, output, target, threads } = Positionals::parse(
        &args.words,
        args.target,
        goal.is_some() || args.plan.is_some() || args.types.model().is_some() || is_comparison,
    )?;
    if is_comparison && (args.words.len() > 1 || target.is_some()) {
        return Err(Failure::new(
            "--compare writes nothing, so it accepts IN, but not OUT or TYPE",
        ));
    }
    if goal.is_some() && target.is_some() {
        return Err(Failure::new("both a type and a target size were given, expected one of them"));
    }
    if let Some(option) = args.measuring.option() {
        check_measuring(args, option, goal.is_some())?;
    }
    let bars = Bars::new(console);
    let target = target.unwrap_or(Target::copy());
    if is_comparison {
        let model = open_model(&input)?;
        let builder = builder(args, &model, target, threads, &bars)?;
        return compare(&args.compare, builder, &model, args.json, console);
    }
    if args.keep_split || args.shard_limit.options().is_some() {
        // As in llama-quantize, OUT is the prefix of the shards, with or without .gguf.
        check_shard_prefix(&without_extension(&output))?;
    } else {
        check_output(&output, std::slice::from_ref(&input), args.force)?;
    }
    let model = open_model(&input)?;
    let builder = builder(args, &model, target, threads, &bars)?;
    let report = args
        .report
        .as_deref()
        .map(|path| Report::new(path, args, &input, &output, builder.inputs()))
        .transpose()?;
    let refused = |error| naming_options(error, args.measuring.token_option());
    let planned = builder.plan(&output).map_err(refused)?;
    bars.clear();
    if args.dry_run {
        print_planned(&planned, args.json, console)?;
        args.rounding.tell_dry_run(console);
        // Fails last, for example for a missing importance matrix: the plan is valid without it.
        return planned.into_refusal().map_or(Ok(Status::Fine), |error| Err(error.into()));
    }
    let mut quantized = planned.write()?;
    bars.clear();
    let status = print_written(&quantized, args.json, console)?;
    if let Some(report) = report {
        report.write(&mut quantized, &bars, console)?;
    }
    // The test comes last: if it fails, the file and its report remain.
    quantized.test().map_err(refused)?;
    Ok(status)
}

/// Converts an error about a text. The hint names the options for this text, of which `option` is the
/// one for token IDs.
pub(crate) fn naming_options(error: ggmill::Error, option: &str) -> Failure {
    let is_calibration = option == CalibrateArgs::TOKENS;
    let hint = match error.hint() {
        Some(Hint::TokenIds(first)) => token_ids(first.as_deref(), option),
        Some(Hint::MoreMemory) if is_calibration => {
            "--calibrate-memory SIZE allows more, --calibrate-chunks N needs less".to_owned()
        }
        Some(hint @ (Hint::SmallerChunks(_) | Hint::LargerChunks)) if is_calibration => {
            hints::text(hint)
        }
        _ => return error.into(),
    };
    let hint = if is_calibration { hint.replace("--ctx", "--calibrate-ctx") } else { hint };
    Failure::new(&error).with_hint(Some(hint))
}

/// Returns the quantization of a model with the options of the arguments.
fn builder<'m>(
    args: &Args,
    model: &'m Model,
    target: Target,
    threads: Option<usize>,
    bars: &Bars,
) -> Result<Quantize<'m>, Failure> {
    let (shown, told) = (bars.clone(), bars.clone());
    let mut builder = ggmill::quantize(model, target.name())?
        .overwrite(args.force)
        .allow_requantize(args.allow_requantize)
        .allow_zeros(args.allow_zeros)
        .prune_layers(args.prune_layers.iter().copied())
        .keep_split(args.keep_split)
        .architectures(&args.arch_file)?
        .on_progress(move |progress| shown.show(progress))
        .on_note(move |note| told.tell(note));
    if let Some(threads) = threads {
        builder = builder.threads(threads);
    }
    if let Some(bytes) = args.target_size {
        builder = builder.target_size(bytes);
    }
    if let Some(bits) = args.target_bpw {
        builder = builder.target_bpw(bits);
    }
    if let Some(calibration) = args.measuring.calibration() {
        builder = builder.measure(calibration);
    }
    if let Some((text, memory)) = args.rounding.text().filter(|_| !args.dry_run) {
        builder = builder.calibrate(text, Some(memory));
    }
    if let Some(path) = args.measuring.plan() {
        builder = builder.sensitivities(path)?;
    }
    builder = with_types!(&args.types, builder);
    if let Some(path) = &args.plan {
        builder = builder.type_plan(path)?;
    }
    if let Some(options) = args.shard_limit.options() {
        builder = builder.split(options.limit);
    }
    Ok(builder)
}

/// Fails for measured sensitivities without a target size, or with removed layers, which renames
/// tensors.
fn check_measuring(args: &Args, option: &str, has_goal: bool) -> Result<(), Failure> {
    if !has_goal {
        let hint = "--target-size SIZE or --target-bpw BITS says how large the result may be";
        let message = format!("{option} chooses types for a size, and there is none");
        return Err(Failure::new(message).with_hint(Some(hint.to_owned())));
    }
    if !args.prune_layers.is_empty() {
        let hint = "leave the layers out first, then quantize the file that remains";
        let message = format!("{option} measures the whole model, and --prune-layers changes it");
        return Err(Failure::new(message).with_hint(Some(hint.to_owned())));
    }
    Ok(())
}

/// Returns a path without the extension `.gguf`.
pub(crate) fn without_extension(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|extension| extension == "gguf") {
        path.with_extension("")
    } else {
        path.to_owned()
    }
}

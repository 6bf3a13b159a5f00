//! `ggmill quantize`: a model becomes a smaller one.

mod compare;
mod fitting;
mod measured;
mod positionals;
mod report;
mod types;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ggmill_core::{RawStr, keys};
use ggmill_pipeline::{Checkpoint as _, ErrorKind, GgufCheckpoint, SourceTensor};
use ggmill_quantize::{Goal, QuantizeOptions, RoleRule, Target, TypePlan, Weighing, to_measure};

use self::fitting::too_small;
pub(crate) use self::fitting::{choose, smaller};
use self::measured::{MeasureArgs, Measuring};
use self::positionals::{Positionals, near, number_of_threads};
use self::report::Report;
pub(crate) use self::types::TypeArgs;

use crate::arch_file::described;
use crate::byte_size::byte_size;
use crate::console::Console;
use crate::making::Making;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, inputs_of};
use crate::paths::shown;
use crate::shard_limit::ShardLimitArgs;
use crate::shards::MakingShards;
use crate::source::open_checkpoint;
use crate::text_file::read_text;

/// Bytes of a plan: some hundreds for each tensor.
const MAX_PLAN_LEN: u64 = 256 << 20;

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
        conflicts_with_all = ["target", "target_size", "target_bpw", "plan", "report", "force"]
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
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = layer)]
    prune_layers: Vec<u64>,
    /// Allow requantizing tensors that are already quantized, which loses quality
    #[arg(long)]
    allow_requantize: bool,
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

pub(crate) fn target(text: &str) -> Result<Target, String> {
    text.parse::<Target>().map_err(|_| {
        let near = near(text).map(|near| format!("not a type, {near}"));
        let found = near.unwrap_or_else(|| "expected a type such as Q4_K_M".to_owned());
        format!("{found}; `ggmill explain types` lists all")
    })
}

fn layer(number: &str) -> Result<u64, String> {
    number.trim().parse().map_err(|_| "expected layer numbers, such as 3,4,10".to_owned())
}

pub(crate) fn run(args: Args, console: Console) -> Result<Status, Failure> {
    let goal = args.target_size.map(Goal::Size).or(args.target_bpw.map(Goal::BitsPerWeight));
    let is_compared = !args.compare.is_empty();
    let Positionals { input, output, target, threads } = Positionals::of(
        &args.words,
        args.target,
        goal.is_some() || args.plan.is_some() || is_compared,
    )?;
    if is_compared && (args.words.len() > 1 || target.is_some()) {
        return Err(Failure::new(
            "--compare writes nothing, so it accepts IN, but not OUT or TYPE",
        ));
    }
    if goal.is_some() && target.is_some() {
        return Err(Failure::new("both a type and a target size were given, expected one of them"));
    }
    if let Some(option) = args.measuring.given() {
        refuse_measuring(&args, option, goal.is_some())?;
    }
    let threads = args.threads.or(threads);
    if let Some(threads) = threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .map_err(Failure::new)?;
    }
    if is_compared {
        return compare::run(args, &open_checkpoint(&input)?, console);
    }
    let cut = args.shard_limit.options();
    let (force, dry_run, json, keep_split) = (args.force, args.dry_run, args.json, args.keep_split);
    // As the reference has it: what the names of the shards begin with, even where a file's name
    // was given.
    let prefix = without_ending(&output);
    let shards = MakingShards { prefix: &prefix, inputs: &[], force, dry_run, json };
    let one = if keep_split || cut.is_some() {
        shards.look_ahead()?;
        None
    } else {
        Some(Output::new(&output, std::slice::from_ref(&input), force, dry_run)?)
    };
    let checkpoint = open_checkpoint(&input)?;
    let mut inputs = inputs_of(&checkpoint)?;
    let read = args.types.files().chain(args.measuring.files()).chain(&args.plan);
    inputs.extend(read.chain(&args.arch_file).cloned());
    let report = args
        .report
        .as_deref()
        .map(|path| Report::start(path, &args, &input, &output, &inputs))
        .transpose()?;
    let measuring = Measuring::start(&args, (&input, &checkpoint), threads, console)?;
    let known = args.measuring.known(args.types.imatrix.is_some(), console)?;
    let mut options = args.options(target.unwrap_or(Target::copy()), &checkpoint, console)?;
    let mut predicted = None;
    if let Some(goal) = goal {
        let sensitivities = match &measuring {
            Some(measuring) => {
                options.importance = options.importance.or(measuring.importance(console)?);
                let tensors = to_measure(&checkpoint, &options, cut.as_ref(), goal);
                let tensors = tensors.map_err(|error| {
                    too_small(error, || smaller(checkpoint.tensors(), &options))
                })?;
                Some(measuring.sensitivities(tensors, console)?)
            }
            None => known,
        };
        options.weighing = sensitivities.map_or(Weighing::Even, Weighing::Measured);
        let shrink = || smaller(checkpoint.tensors(), &options);
        let fit = choose(goal, shrink, console, |run, progress| {
            ggmill_quantize::fit(&checkpoint, &options, cut.as_ref(), goal, run, progress)
        })?;
        predicted = fit.divergence;
        options.types = Some(fit.types);
    }
    let (status, made) = if let Some(output) = one {
        let making = Making { output, inputs: &inputs, json };
        let plan = ggmill_quantize::quantize(&checkpoint, &options)
            .and_then(|recipe| recipe.plan(&checkpoint))
            .map_err(refused)?;
        (making.run(&plan, &checkpoint, console)?, vec![(output.path().to_owned(), plan)])
    } else {
        let recipes = match cut {
            Some(cut) => ggmill_quantize::quantize(&checkpoint, &options)
                .and_then(|recipe| recipe.split(&cut)),
            None => ggmill_quantize::quantize_shards(&checkpoint, &options),
        };
        let making = MakingShards { inputs: &inputs, ..shards };
        making.run(recipes.map_err(refused)?, &checkpoint, console)?
    };
    if dry_run {
        // What only a run is refused for: importance that is missing, for one.
        options.dry_run = false;
        drop(ggmill_quantize::quantize(&checkpoint, &options).map_err(refused)?);
    }
    if let Some(report) = report {
        report.write(&checkpoint, &made, options.importance.as_ref(), console)?;
    }
    // Last: what was written is there even if it cannot be tested.
    if let (Some(measuring), Some((written, _)), false) = (&measuring, made.first(), dry_run) {
        measuring.test(written, predicted, console)?;
    }
    Ok(status)
}

/// Refuses to measure where no type is chosen by it, or where tensors are given other names.
fn refuse_measuring(args: &Args, option: &str, has_goal: bool) -> Result<(), Failure> {
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

/// A path without `.gguf` at its end.
pub(crate) fn without_ending(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|extension| extension == "gguf") {
        path.with_extension("")
    } else {
        path.to_owned()
    }
}

/// A hint about a refusal.
pub(crate) fn refused(error: ggmill_pipeline::Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::Importance => Some(
            "--imatrix FILE gives the importance matrix of this model, as created by `ggmill \
             imatrix make` or llama-imatrix",
        ),
        ErrorKind::NonFinite => Some("`ggmill check FILE --data` finds all such values"),
        ErrorKind::Quantized => Some(
            "--allow-requantize quantizes them anyway; quantizing from a 16-bit or 32-bit file \
             loses less",
        ),
        _ => None,
    };
    Failure::new(error).with_hint(hint.map(str::to_owned))
}

impl Args {
    fn options(
        self,
        target: Target,
        checkpoint: &GgufCheckpoint,
        console: Console,
    ) -> Result<QuantizeOptions, Failure> {
        let mut options = QuantizeOptions::new(target);
        let described = self.described_roles(checkpoint)?;
        if self.plan.is_some()
            && target.is_copy()
            && (self.types.has_patterns()
                || self.types.output_tensor_type.is_some()
                || self.types.token_embedding_type.is_some())
        {
            console.note(
                "a plan specifies the type of every tensor, so other options for types have no \
                 effect",
            );
        }
        let names = checkpoint.tensors().iter().map(SourceTensor::name);
        self.types.apply(&mut options, &names, console)?;
        options.allow_requantize = self.allow_requantize;
        options.roles.extend(described);
        if let Some(path) = &self.plan {
            let text = read_text(path, MAX_PLAN_LEN)?;
            options.types = Some(
                TypePlan::parse(text.as_bytes())
                    .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?,
            );
        }
        options.prune_layers = BTreeSet::from_iter(self.prune_layers);
        options.dry_run = self.dry_run;
        Ok(options)
    }

    /// The roles that a description of the model's architecture gives.
    fn described_roles(&self, checkpoint: &GgufCheckpoint) -> Result<Vec<RoleRule>, Failure> {
        if self.arch_file.is_empty() {
            return Ok(Vec::new());
        }
        let catalogue = described(&self.arch_file)?;
        let metadata = checkpoint.metadata();
        let name = metadata.str(keys::GENERAL_ARCHITECTURE).unwrap_or_default();
        let architecture =
            catalogue.iter().rev().find(|architecture| architecture.name() == name).ok_or_else(
                || {
                    let names: Vec<_> = catalogue
                        .iter()
                        .map(|architecture| format!("{:?}", RawStr::from(architecture.name())))
                        .collect();
                    Failure::new(format_args!(
                        "the architecture of the model is {:?}, but --arch-file describes {}",
                        RawStr::from(name),
                        names.join(", ")
                    ))
                },
            )?;
        RoleRule::of(architecture).map_err(Failure::new)
    }
}

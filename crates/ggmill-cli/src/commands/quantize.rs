//! `ggmill quantize`: a model becomes a smaller one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ggmill_convert::{
    ErrorKind, GgufCheckpoint, Imatrix, Importance, ImportanceFilter, Override, QuantizeOptions, ShardLimit, SplitOptions, Target, TensorType, weight_type,
};
use ggmill_core::{GgmlType, RawStr};

use crate::commands::split;
use crate::console::Console;
use crate::making::{Making, inputs_of, shown};
use crate::outcome::{Failure, Status};
use crate::shards::MakingShards;
use crate::text_file::read_text;

/// Bytes of a file of rules.
const LONGEST_RULES: u64 = 16 << 20;

/// Turn a model into a smaller one: quantize its tensors
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(
    override_usage = "ggmill quantize [OPTIONS] IN [OUT] TYPE [THREADS]",
    after_help = "\
Examples:
  ggmill quantize model-F16.gguf Q4_K_M
  ggmill quantize model-F16.gguf small.gguf IQ2_XS --imatrix model.imatrix.gguf
  ggmill quantize model-F16.gguf out.gguf Q4_K_M --tensor-type 'ffn_down=q6_k' --dry-run

TYPE is a name or number as llama-quantize has them: Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0
Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ1_S IQ1_M IQ2_XXS
IQ2_XS IQ2_S IQ2_M IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4_MOE NVFP4
BF16 F16 F32; Q3_K, Q4_K and Q5_K mean their _M; COPY changes no tensor. Any architecture
will do. IN may be any shard of a set; OUT is one file unless shards are asked for."
)]
pub(crate) struct Args {
    /// The model, what to write (by default ggml-model-TYPE.gguf beside it), its type, and how many threads to use
    #[arg(value_name = "IN [OUT] TYPE [THREADS]", required = true, num_args = 1..=4)]
    words: Vec<PathBuf>,
    /// TYPE, where it is not given in its place
    #[arg(long = "type", value_name = "TYPE", value_parser = target)]
    target: Option<Target>,
    /// How many threads to use; by default all
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,
    /// How much each column matters: a file from llama-imatrix, of either form
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Use the imatrix only for tensors with this in their names
    #[arg(long, value_name = "PART", requires = "imatrix", conflicts_with = "exclude_weights")]
    include_weights: Vec<String>,
    /// Use no imatrix for tensors with this in their names
    #[arg(long, value_name = "PART", requires = "imatrix")]
    exclude_weights: Vec<String>,
    /// Give every tensor the same type instead of a mixture
    #[arg(long)]
    pure: bool,
    /// Keep output.weight as it is
    #[arg(long)]
    leave_output_tensor: bool,
    /// The type of output.weight
    #[arg(long, value_name = "TYPE", value_parser = tensor_type)]
    output_tensor_type: Option<GgmlType>,
    /// The type of the token embeddings
    #[arg(long, value_name = "TYPE", value_parser = tensor_type)]
    token_embedding_type: Option<GgmlType>,
    /// A type for tensors in whose names a regular expression is found; the first that is decides
    #[arg(long, value_name = "PATTERN=TYPE", value_parser = TensorType::parse)]
    tensor_type: Vec<TensorType>,
    /// A file of PATTERN=TYPE, separated by spaces or lines
    #[arg(long, value_name = "FILE")]
    tensor_type_file: Option<PathBuf>,
    /// Leave out layers, and number the others anew
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    prune_layers: Vec<u64>,
    /// Set metadata; TYPE is int, float, bool or str
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = Override::parse)]
    override_kv: Vec<Override>,
    /// Quantize what is quantized already, at a loss
    #[arg(long)]
    allow_requantize: bool,
    /// Write a shard for each shard of IN: OUT-00001-of-00009.gguf and so on
    #[arg(long, conflicts_with_all = ["split_max_size", "split_max_tensors"])]
    keep_split: bool,
    /// Write shards of so many bytes of data
    #[arg(long, value_name = "N(K|M|G)", value_parser = split::size, conflicts_with = "split_max_tensors")]
    split_max_size: Option<u64>,
    /// Write shards of so many tensors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    split_max_tensors: Option<u64>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print what would be written, to the byte, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the plan as JSON instead of a summary
    #[arg(long)]
    json: bool,
}

fn target(text: &str) -> Result<Target, String> {
    Target::parse(text).ok_or_else(|| "expected a type such as Q4_K_M; --help lists them".to_owned())
}

fn tensor_type(name: &str) -> Result<GgmlType, String> {
    weight_type(name).ok_or_else(|| "expected a tensor type such as Q6_K".to_owned())
}

pub(crate) fn run(args: Args, console: Console) -> Result<Status, Failure> {
    let Words { input, output, target, threads } = Words::of(&args.words, args.target)?;
    if let Some(threads) = args.threads.or(threads) {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(Failure::new)?;
    }
    let checkpoint = GgufCheckpoint::open(&input).map_err(Failure::new)?;
    let mut inputs = inputs_of(&checkpoint)?;
    inputs.extend([&args.imatrix, &args.tensor_type_file].into_iter().flatten().cloned());
    let (force, dry_run, json) = (args.force, args.dry_run, args.json);
    let limit = args.split_max_size.map(ShardLimit::Bytes).or(args.split_max_tensors.map(ShardLimit::Tensors));
    let keep_split = args.keep_split;
    let options = args.options(target)?;
    if keep_split || limit.is_some() {
        let recipes = match limit {
            Some(limit) => ggmill_convert::quantize(&checkpoint, &options).and_then(|recipe| recipe.split(&SplitOptions::new(limit))),
            None => ggmill_convert::quantize_shards(&checkpoint, &options),
        };
        // As the reference has it: what the names of the shards begin with, even where a file's name was given.
        let making = MakingShards { prefix: &without_ending(&output), inputs: &inputs, force, dry_run, json };
        return making.run(recipes.map_err(refused)?, &checkpoint, console).map(|(status, _)| status);
    }
    let making = Making { output: &output, inputs: &inputs, force, dry_run, json };
    let plan = ggmill_convert::quantize(&checkpoint, &options).and_then(|recipe| recipe.plan(&checkpoint)).map_err(refused)?;
    making.run(&plan, &checkpoint, console)
}

/// A path without `.gguf` at its end.
fn without_ending(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|extension| extension == "gguf") { path.with_extension("") } else { path.to_owned() }
}

/// What to do about a refusal.
fn refused(error: ggmill_convert::Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::Importance => Some("--imatrix FILE gives importance weights; llama-imatrix measures them"),
        ErrorKind::Quantized => Some("--allow-requantize does it all the same; from a file of 16 or 32 bits less is lost"),
        _ => None,
    };
    Failure::new(error).with_hint(hint.map(str::to_owned))
}

impl Args {
    fn options(self, target: Target) -> Result<QuantizeOptions, Failure> {
        let mut options = QuantizeOptions::new(target);
        options.importance = self.importance()?;
        options.tensor_types = self.tensor_type;
        if let Some(path) = &self.tensor_type_file {
            let failed = |error: &dyn std::fmt::Display| Failure::new(format_args!("{}: {error}", shown(path)));
            let text = read_text(path, LONGEST_RULES)?;
            options.tensor_types.extend(TensorType::parse_list(&text).map_err(|error| failed(&error))?);
        }
        options.allow_requantize = self.allow_requantize;
        options.leave_output_tensor = self.leave_output_tensor;
        options.pure = self.pure;
        options.output_tensor_type = self.output_tensor_type;
        options.token_embedding_type = self.token_embedding_type;
        options.prune_layers = BTreeSet::from_iter(self.prune_layers);
        options.overrides = self.override_kv;
        options.dry_run = self.dry_run;
        Ok(options)
    }

    fn importance(&self) -> Result<Option<Importance>, Failure> {
        let Some(path) = &self.imatrix else { return Ok(None) };
        let imatrix = Imatrix::open(path).map_err(Failure::new)?;
        let filter = match (&*self.include_weights, &*self.exclude_weights) {
            ([], []) => ImportanceFilter::All,
            ([], parts) => ImportanceFilter::Exclude(parts.to_vec()),
            (parts, _) => ImportanceFilter::Include(parts.to_vec()),
        };
        Ok(Importance::new(&imatrix, &path.to_string_lossy(), &filter))
    }
}

/// The words that are no options, told apart.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    input: PathBuf,
    output: PathBuf,
    target: Target,
    threads: Option<usize>,
}

impl Words {
    fn of(words: &[PathBuf], asked: Option<Target>) -> Result<Self, Failure> {
        let (input, rest) = words.split_first().ok_or_else(|| Failure::new("no input was given"))?;
        let as_target = |word: &PathBuf| word.to_str().and_then(Target::parse);
        // As in the reference, what reads like a type is one, and not a file of that name.
        let (output, target, threads) = match (rest, asked) {
            ([], Some(target)) => (None, target, None),
            ([output], Some(target)) => (Some(output), target, None),
            ([word], None) => (None, as_target(word).ok_or_else(|| no_type(word))?, None),
            ([word, threads], None) if as_target(word).is_some() => (None, as_target(word).ok_or_else(|| no_type(word))?, Some(threads)),
            ([output, word], None) => (Some(output), as_target(word).ok_or_else(|| no_type(word))?, None),
            ([output, word, threads], None) => (Some(output), as_target(word).ok_or_else(|| no_type(word))?, Some(threads)),
            _ => return Err(Failure::new("expected IN [OUT] TYPE [THREADS], or IN [OUT] with --type")),
        };
        let beside = || input.parent().unwrap_or(Path::new("")).join(format!("ggml-model-{}.gguf", target.name()));
        let threads = threads.map(|word| word.to_str().and_then(|word| word.parse().ok()).ok_or_else(|| wrong(word, "no number of threads"))).transpose()?;
        Ok(Self { input: input.clone(), output: output.map_or_else(beside, PathBuf::clone), target, threads })
    }
}

fn no_type(word: &Path) -> Failure {
    wrong(word, "no type to quantize to").with_hint(Some("--help lists the types; Q4_K_M is a common choice".to_owned()))
}

fn wrong(word: &Path, what: &str) -> Failure {
    Failure::new(format_args!("{:?} is {what}", RawStr::new(OsStr::as_encoded_bytes(word.as_os_str()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Option<(String, String, Option<usize>)> {
        let paths: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
        let words = Words::of(&paths, None).ok()?;
        Some((words.output.to_str()?.to_owned(), words.target.name().to_owned(), words.threads))
    }

    #[test]
    fn words_are_told_apart_as_llama_quantize_does() {
        let is = |output: &str, target: &str, threads| Some((output.to_owned(), target.to_owned(), threads));
        assert_eq!(words(&["dir/in.gguf", "q4_k_m"]), is("dir/ggml-model-Q4_K_M.gguf", "Q4_K_M", None));
        assert_eq!(words(&["in.gguf", "15", "3"]), is("ggml-model-Q4_K.gguf", "Q4_K", Some(3)));
        assert_eq!(words(&["in.gguf", "out.gguf", "7"]), is("out.gguf", "Q8_0", None));
        assert_eq!(words(&["in.gguf", "out.gguf", "copy", "2"]), is("out.gguf", "COPY", Some(2)));
        for refused in [&["in.gguf", "out.gguf"][..], &["in.gguf"], &["in.gguf", "out.gguf", "Q9"], &["in.gguf", "Q8_0", "many"]] {
            assert_eq!(words(refused), None, "{refused:?}");
        }
    }
}

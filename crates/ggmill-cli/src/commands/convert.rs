//! `ggmill convert`: converts checkpoints, adapters and legacy files to GGUF, and GGUF files to
//! checkpoints.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ggmill::{Convert, ConvertSource, RestorePlan};
use ggmill_convert::LegacyOptions;
use ggmill_core::{FileType, GgmlType, RawStr};
use ggmill_pipeline::ShardLimit;

use crate::commands::quantize::{CalibrateArgs, TypeArgs, naming_options, target, with_types};
use crate::console::{Console, counted};
use crate::files::{open_model, refuse_input, refuse_stream, shown};
use crate::library;
use crate::model_output::{
    print_planned, print_written, refuse_errors, summarize_findings, verification_text,
};
use crate::options::{ShardLimitArgs, byte_size};
use crate::outcome::{Failure, Status};
use crate::progress::Bars;
use crate::remote;

/// Convert a model checkpoint to a GGUF file
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill convert Llama-3.2-1B/
  ggmill convert Llama-3.2-1B/ llama.gguf --type Q4_K_M
  ggmill convert Llama-3.2-1B/ --target-bpw 4.5
  ggmill convert my-model/ --type IQ3_M --imatrix model.imatrix.gguf
  ggmill convert my-model/ --type q8_0 --split-max-size 4G --dry-run
  ggmill convert hf://HuggingFaceTB/SmolLM2-135M -o smollm2.gguf
  ggmill convert my-adapter/ --base Llama-3.2-1B/ -o my-adapter.gguf
  ggmill convert my-draft/ --target Llama-3.2-1B/ -o my-draft.gguf
  ggmill convert old.bin
  ggmill convert model.gguf --to safetensors -o my-model/

Without OUT, the file is written to the current directory, and its name follows the GGUF naming \
convention, such as Mixtral-8x7B-v0.1-BF16.gguf (the version is v1.0 if none is known); if OUT is \
a directory, the file is written there. The result is checked with the rules of `ggmill check` \
before it is written. If they find an error, nothing is written, except that a file without tensors \
or without a vocabulary is written anyway; other findings are summarized.

TYPE is auto, or any type of `ggmill quantize`: F32 BF16 F16 Q8_0 Q6_K Q5_K_M Q4_K_M IQ4_XS \
Q3_K_M IQ2_M and more; `ggmill explain types` lists all of them, and `ggmill explain TYPE` describes one. With auto, BF16 \
and F16 checkpoints keep their type, and F32 checkpoints become F16, as with \
convert_hf_to_gguf.py. F32, F16, BF16 and Q8_0 files are identical to those of \
convert_hf_to_gguf.py, apart from documented exceptions; other types are quantized as by `ggmill \
quantize`, without an intermediate file.

SRC is a directory with config.json and model.safetensors or pytorch_model.bin (or shards), in \
Hugging Face layout; no code in a PyTorch file is executed. The architecture is determined by \
config.json; --arch-file adds a description of an architecture that ggmill does not know. SRC may \
also use the layout of Mistral or Meta (params.json with consolidated.safetensors, or with \
consolidated.00.pth, …), or be a llama2.c file with tokenizer.bin next to it.

SRC may also be a repository on the Hugging Face Hub, or a directory in one: hf://OWNER/NAME. Each \
tensor is read as it is converted, and no local copy is made; --target-size and --target-bpw first \
read a sample of each tensor.

SRC may also be a PEFT adapter: a directory with adapter_config.json and adapter_model \
(.safetensors or .bin). --base is the base model: its directory or its GGUF file. The type is \
F32, F16, BF16 or Q8_0; auto is F32. `ggmill lora merge` merges the result into a model.

SRC may also be a draft model for speculative decoding (EAGLE-3). --target is the directory of \
its target model; the file is written with that model's tokenizer.

SRC may also be a legacy LLaMA file (GGML, GGMF, GGJT). Tensor types are kept; blocks in outdated \
quantization layouts are converted to the current layout.

With --to safetensors, SRC is a GGUF file, and a checkpoint is written from it by applying the \
architecture description in reverse. TYPE is auto, F32, F16 or BF16. If the file lacks data that \
a tensor of the checkpoint needs, the command fails and names the tensor.")]
pub(crate) struct Args {
    /// The checkpoint: a directory, a .safetensors or PyTorch file with config.json next to it, or
    /// a legacy file
    src: PathBuf,
    /// Base model of an adapter: its directory or its GGUF file [default: the directory named in the
    /// adapter]
    #[arg(long, value_name = "BASE")]
    base: Option<PathBuf>,
    /// Target model of a draft model (EAGLE-3): its directory, from which the tokenizer is taken
    #[arg(long, visible_alias = "target-model-dir", value_name = "DIR")]
    target: Option<PathBuf>,
    /// The file to write, as with -o
    #[arg(value_name = "OUT", conflicts_with = "output", value_parser = output_path)]
    out: Option<PathBuf>,
    /// The file to write, or the directory for it [default: a name following the GGUF naming
    /// convention, in the current directory]
    #[arg(short, long, visible_alias = "outfile", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Type of most tensors: auto (16 bits, see below), F32, BF16, F16, Q8_0, Q6_K, Q5_K_M, Q4_K_M,
    /// IQ4_XS, …; `ggmill explain types` lists all
    #[arg(short = 't', long = "type", visible_alias = "outtype", value_name = "TYPE", default_value = "auto", value_parser = conversion_type)]
    to: String,
    /// Choose the tensor types with the lowest quantization error for a file of at most this size,
    /// such as 4.2G or 4.2GiB
    #[arg(long, value_name = "SIZE", value_parser = byte_size, help_heading = "Target size", conflicts_with_all = ["to", "pure", "target_bpw"])]
    target_size: Option<u64>,
    /// Choose the tensor types with the lowest quantization error for at most this many bits per
    /// weight
    #[arg(long, value_name = "BITS", help_heading = "Target size", conflicts_with_all = ["to", "pure"])]
    target_bpw: Option<f64>,
    #[command(flatten)]
    shard_limit: ShardLimitArgs,
    /// The model's name in the metadata [default: from SRC]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// A JSON file with metadata (general.author, general.license, …) that overrides that of SRC
    #[arg(long, value_name = "FILE")]
    metadata: Option<PathBuf>,
    /// Convert although config.json has settings that the file cannot express: the file computes with
    /// the values that programs assume, and lists the settings in the key ggmill.assumed_settings
    #[arg(long)]
    assume_defaults: bool,
    /// Write no vocabulary
    #[arg(long)]
    no_vocab: bool,
    /// Name of the pre-tokenizer [default: detected from the tokenizer]
    #[arg(long, value_name = "NAME")]
    pre: Option<String>,
    /// Convert the vision and audio encoders to a separate mmproj file, which llama.cpp loads with
    /// the model
    #[arg(long, conflicts_with_all = ["no_vocab", "pre", "vocab_only"])]
    mmproj: bool,
    /// Write only the metadata and the vocabulary, without tensors; SRC does not need weights
    #[arg(long, conflicts_with = "no_vocab")]
    vocab_only: bool,
    /// An architecture description (TOML), or a directory of them, to use in addition to the
    /// built-in ones (repeatable)
    #[arg(long, value_name = "PATH")]
    arch_file: Vec<PathBuf>,
    /// Write the computation graph into the file, so that a program can run the model without
    /// knowing its architecture
    #[arg(long)]
    with_graph: bool,
    /// Skip the check before writing
    #[arg(long)]
    no_check: bool,
    /// Do not compare the tokens of the vocabulary with those of tokenizer.json. By default, a note says
    /// how many of 500 texts have other tokens, and why
    #[arg(long, conflicts_with_all = ["no_vocab", "mmproj"])]
    no_verify: bool,
    /// After writing, run the model and compare its outputs. `auto` compares with the checkpoint:
    /// with its conversion to F32, which is not written, and with what the transformers library
    /// computes, if the Python interpreter (GGMILL_PYTHON, or python3) has it. LOGITS is a GGUF
    /// file with logits that another program computed: the tensors `tokens` (I32) and `logits`
    /// (F32), as llama-results of llama.cpp writes it
    #[arg(long, value_name = "auto|LOGITS", conflicts_with_all = ["dry_run", "json", "mmproj", "no_check", "vocab_only"])]
    verify: Option<PathBuf>,
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
    #[command(flatten, next_help_heading = "Metadata")]
    types: TypeArgs,
    #[command(flatten)]
    rounding: CalibrateArgs,
    #[command(flatten, next_help_heading = "Reverse conversion")]
    back: BackArgs,
    #[command(flatten)]
    legacy: LegacyArgs,
}

/// Parses the path of the output. Rejects the name of a type, which was probably meant as `--type`.
fn output_path(text: &str) -> Result<PathBuf, String> {
    if conversion_type(text).is_ok() {
        return Err(format!(
            "this is a type, expected the file to write; --type {text} sets the type"
        ));
    }
    Ok(PathBuf::from(text))
}

/// Checks the name of a type, and returns it unchanged: the library parses it again.
fn conversion_type(name: &str) -> Result<String, String> {
    const PLAIN: [FileType; 4] = [FileType::F32, FileType::F16, FileType::BF16, FileType::Q8_0];
    let is_plain = name.parse().is_ok_and(|found| PLAIN.contains(&found));
    if !is_plain && !name.eq_ignore_ascii_case("auto") && target(name)?.is_copy() {
        return Err("expected a type such as Q4_K_M, or auto".to_owned());
    }
    Ok(name.to_owned())
}

pub(crate) fn run(mut args: Args, console: Console) -> Result<Status, Failure> {
    args.output = args.output.or(args.out.take());
    if !remote::is_remote(&args.src) {
        refuse_input(&args.src)?;
    }
    let builder = ggmill::convert(&args.src)?;
    if let Some(option) = args.legacy.given().filter(|_| builder.source() != ConvertSource::Legacy)
    {
        return Err(Failure::new(format_args!("{option}: applies only to legacy files")));
    }
    match builder.source() {
        ConvertSource::Gguf if args.back.is_given() => restore(restore_request(args)?, console),
        ConvertSource::Legacy => convert(args, builder, console),
        _ if args.back.is_given() => Err(Failure::new(format_args!(
            "{}: not a GGUF file; --to converts only GGUF files",
            shown(&args.src)
        ))),
        _ => convert(args, builder, console),
    }
}

fn convert(args: Args, builder: Convert<'_>, console: Console) -> Result<Status, Failure> {
    if args.back.is_given() {
        return Err(Failure::new("--to: not supported for legacy files"));
    }
    let bars = Bars::new(console);
    let (shown, told) = (bars.clone(), bars.clone());
    let mut builder = builder
        .open_with(remote::options(&args.src)?)
        .overwrite(args.force)
        .allow_zeros(args.allow_zeros)
        .no_vocab(args.no_vocab)
        .assume_defaults(args.assume_defaults)
        .no_verify(args.no_verify)
        .vocab_only(args.vocab_only)
        .mmproj(args.mmproj)
        .with_graph(args.with_graph)
        .check(!args.no_check)
        .on_progress(move |progress| shown.show(progress))
        .on_note(move |note| told.tell(note))
        .to(&args.to)?
        .architectures(&args.arch_file)?;
    builder = with_types!(&args.types, builder);
    if let Some(bytes) = args.target_size {
        builder = builder.target_size(bytes);
    }
    if let Some(bits) = args.target_bpw {
        builder = builder.target_bpw(bits);
    }
    if let Some(options) = args.shard_limit.options() {
        builder = builder.split(options.limit);
    }
    if let Some(name) = args.name {
        builder = builder.name(name);
    }
    if let Some(name) = args.pre {
        builder = builder.pre(name);
    }
    if let Some(path) = args.base {
        builder = builder.base(path);
    }
    if let Some(path) = args.target {
        builder = builder.target(path);
    }
    if let Some(path) = &args.metadata {
        builder = builder.metadata(path)?;
    }
    builder = match &args.verify {
        Some(path) if path.as_os_str() == "auto" => builder.verify(library::run),
        Some(path) => builder.logits(path)?,
        None => builder,
    };
    if let Some((text, memory)) = args.rounding.text().filter(|_| !args.dry_run) {
        builder = builder.calibrate(text, Some(memory));
    }
    if args.dry_run {
        args.rounding.tell_dry_run(console);
    }
    if args.legacy.given().is_some() {
        builder = builder.legacy(args.legacy.options());
    }
    let options =
        OutputOptions { output: args.output.as_deref(), dry_run: args.dry_run, json: args.json };
    run_builder(builder, options, &bars, console)
}

/// The options for the output of a conversion.
#[derive(Clone, Copy)]
pub(crate) struct OutputOptions<'a> {
    pub(crate) output: Option<&'a Path>,
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
}

/// Plans a conversion, then prints the plan, or writes the file and prints what was written.
pub(crate) fn run_builder(
    builder: Convert<'_>,
    options: OutputOptions<'_>,
    bars: &Bars,
    console: Console,
) -> Result<Status, Failure> {
    let OutputOptions { output, dry_run, json } = options;
    if let Some(output) = output {
        refuse_stream(output)?;
    }
    let refused = |error| naming_options(error, CalibrateArgs::TOKENS);
    let planned = builder.plan(output.unwrap_or(Path::new(""))).map_err(refused)?;
    bars.clear();
    let has_vocabulary = planned.has_vocabulary();
    if dry_run {
        // The plan is printed even if writing it would be refused.
        print_planned(&planned, json, console)?;
        refuse_errors(&planned, console)?;
        summarize_findings(planned.reports(), &planned.notes(), has_vocabulary, console);
        return planned.into_refusal().map_or(Ok(Status::Fine), |error| Err(error.into()));
    }
    if planned.refusal().is_none() {
        refuse_errors(&planned, console)?;
    }
    let mut converted = planned.write()?;
    bars.clear();
    let status = print_written(&converted, json, console)?;
    summarize_findings(converted.reports(), converted.notes(), has_vocabulary, console);
    converted.test()?;
    let Some(found) = converted.verify()? else { return Ok(status) };
    let Some(path) = converted.paths().first() else { return Ok(status) };
    let mut out = console.text();
    write!(out, "\n{}", verification_text(path, &found))?;
    out.flush()?;
    Ok(if found.faults().is_empty() { Status::Fine } else { Status::Findings })
}

/// Returns the request for a reverse conversion. Fails for options that it does not support.
fn restore_request(args: Args) -> Result<RestoreRequest, Failure> {
    let ggml_type = match args.to.to_ascii_uppercase().as_str() {
        "AUTO" => None,
        "F32" => Some(GgmlType::F32),
        "F16" => Some(GgmlType::F16),
        "BF16" => Some(GgmlType::BF16),
        _ => {
            let message = "expected F32, F16, BF16 or auto for the tensors of a checkpoint";
            return Err(Failure::new(message));
        }
    };
    for (is_given, option) in [
        (args.name.is_some(), "--name"),
        (args.metadata.is_some(), "--metadata"),
        (args.pre.is_some(), "--pre"),
        (args.json, "--json"),
        (args.mmproj, "--mmproj"),
        (args.with_graph, "--with-graph"),
        (args.assume_defaults, "--assume-defaults"),
        (args.no_verify, "--no-verify"),
        (args.base.is_some(), "--base"),
        (args.target.is_some(), "--target"),
        (args.target_size.is_some(), "--target-size"),
        (args.target_bpw.is_some(), "--target-bpw"),
        (args.types.is_given(), "options for quantization"),
        (args.rounding.text().is_some(), "--calibrate"),
        (args.force, "--force"),
        (args.no_check, "--no-check"),
        (args.verify.is_some(), "--verify"),
    ] {
        if is_given {
            return Err(Failure::new(format_args!(
                "{option}: not supported with --to safetensors"
            )));
        }
    }
    Ok(RestoreRequest {
        src: args.src,
        output: args.output,
        ggml_type,
        limit: args.shard_limit.options().map(|options| options.limit),
        no_vocab: args.no_vocab,
        vocab_only: args.vocab_only,
        arch_file: args.arch_file,
        dry_run: args.dry_run,
        back: args.back,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Safetensors,
}

/// The options of `ggmill convert --to safetensors`, the reverse conversion.
#[derive(Debug, clap::Args)]
struct BackArgs {
    /// Convert a GGUF file back to a checkpoint: a directory with config.json, weights and
    /// tokenizer
    #[arg(long = "to", value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The model class to write [default: the best match]
    #[arg(long, value_name = "NAME", requires = "format")]
    class: Option<String>,
}

impl BackArgs {
    fn is_given(&self) -> bool {
        self.format.is_some()
    }
}

/// A reverse conversion: the options of [`Args`] that it supports.
struct RestoreRequest {
    src: PathBuf,
    output: Option<PathBuf>,
    /// The type of the tensors; `None` keeps their types.
    ggml_type: Option<GgmlType>,
    limit: Option<ShardLimit>,
    no_vocab: bool,
    vocab_only: bool,
    arch_file: Vec<PathBuf>,
    dry_run: bool,
    back: BackArgs,
}

/// Converts a GGUF file back to a checkpoint.
fn restore(request: RestoreRequest, console: Console) -> Result<Status, Failure> {
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
        print_restore_plan(&planned, &output, console)?;
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

/// Prints the tensors and files of a planned checkpoint. Shapes are in the order of safetensors.
fn print_restore_plan(
    planned: &RestorePlan<'_>,
    output: &Path,
    console: Console,
) -> Result<(), Failure> {
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

/// Returns the directory for a checkpoint: the name of the file without its extension.
fn default_output(src: &Path) -> PathBuf {
    PathBuf::from(src.file_stem().unwrap_or("checkpoint".as_ref()))
}

/// The options for legacy files: hyperparameters that these files do not store.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Legacy files (values that they do not store)")]
struct LegacyArgs {
    /// Context length in tokens: 2048 for LLaMA, 4096 for LLaMA 2 [default: 2048]
    #[arg(long, value_name = "N")]
    context_length: Option<u32>,
    /// RMS norm epsilon: 1e-6 for LLaMA, 1e-5 for LLaMA 2; the default is that of llama.cpp's
    /// legacy converter [default: 0.000005]
    #[arg(long, value_name = "X")]
    eps: Option<f32>,
    /// Number of KV heads, if there are fewer KV heads than attention heads: 8 for LLaMA 2 70B
    #[arg(long, value_name = "N")]
    kv_heads: Option<u32>,
}

impl LegacyArgs {
    /// Returns the first option that was set.
    fn given(&self) -> Option<&'static str> {
        let options = [
            ("--context-length", self.context_length.is_some()),
            ("--eps", self.eps.is_some()),
            ("--kv-heads", self.kv_heads.is_some()),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    fn options(&self) -> LegacyOptions {
        let mut options = LegacyOptions::default();
        options.context_length = self.context_length.unwrap_or(options.context_length);
        options.rms_norm_epsilon = self.eps.unwrap_or(options.rms_norm_epsilon);
        options.head_count_kv = self.kv_heads;
        options
    }
}

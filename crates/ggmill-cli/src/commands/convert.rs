//! `ggmill convert`: a checkpoint becomes a GGUF file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, VocabularyKind};
use ggmill_convert::{AutoType, ConvertOptions, WithTarget, own_type};
use ggmill_core::{FileType, GgmlType, RawStr};
use ggmill_inspect::FileKind;
use ggmill_pipeline::formats::PeftAdapter;
use ggmill_pipeline::{ErrorKind, Pretrained, Recipe};
use ggmill_quantize::{Goal, QuantizeOptions, Target, fit_recipe, quantize_recipe};

use crate::arch_file::catalogue;
use crate::byte_size::byte_size;
use crate::commands::convert_source::unknown_class;
use crate::commands::convert_write::{Destination, Place, lacks_vocabulary};
use crate::commands::quantize::{TypeArgs, choose, refused, smaller, target};
use crate::commands::{convert_back, convert_legacy, convert_lora, convert_source};
use crate::console::Console;
use crate::metadata_file::metadata_override;
use crate::outcome::{Failure, Status};
use crate::paths::{refuse_missing, shown};
use crate::ran::recorded;
use crate::remote;
use crate::run_model::without_graph;
use crate::shard_limit::ShardLimitArgs;
use crate::source::{refuse_input, what_it_is};

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
before it is written. If they find an error, nothing is written; other findings are summarized.

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
    to: ConversionType,
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
    /// After writing, run the model and compare its outputs with logits that another program
    /// computed from the checkpoint, as `ggmill check --run=LOGITS` does. LOGITS is a GGUF file
    /// with the tensors `tokens` (I32) and `logits` (F32), as llama-results of llama.cpp writes it
    #[arg(long, value_name = "LOGITS", conflicts_with_all = ["dry_run", "json", "mmproj", "no_check", "vocab_only"])]
    verify: Option<PathBuf>,
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
    #[command(flatten, next_help_heading = "Reverse conversion")]
    back: convert_back::BackArgs,
    #[command(flatten)]
    legacy: convert_legacy::LegacyArgs,
}

/// The result of a conversion.
#[derive(Clone, Copy, Debug)]
enum ConversionType {
    /// The 16-bit type closest to the checkpoint.
    Auto,
    /// One that the converter of the reference writes.
    Plain(FileType),
    /// One that is quantized in the same pass.
    Quantized(Target),
}

/// Takes a path that does not read like a type: a type in this place is a mistake.
fn output_path(text: &str) -> Result<PathBuf, String> {
    if conversion_type(text).is_ok() {
        return Err(format!(
            "this is a type, expected the file to write; --type {text} sets the type"
        ));
    }
    Ok(PathBuf::from(text))
}

fn conversion_type(name: &str) -> Result<ConversionType, String> {
    const PLAIN: [FileType; 4] = [FileType::F32, FileType::F16, FileType::BF16, FileType::Q8_0];
    if name.eq_ignore_ascii_case("auto") {
        return Ok(ConversionType::Auto);
    }
    if let Some(plain) = name.parse().ok().filter(|found| PLAIN.contains(found)) {
        return Ok(ConversionType::Plain(plain));
    }
    let target = target(name)?;
    if target.is_copy() {
        return Err("expected a type such as Q4_K_M, or auto".to_owned());
    }
    Ok(ConversionType::Quantized(target))
}

pub(crate) fn run(mut args: Args, console: Console) -> Result<Status, Failure> {
    args.output = args.output.or(args.out.take());
    let is_gguf = || args.src.extension().is_some_and(|extension| extension == "gguf");
    let found = if remote::is_remote(&args.src) {
        // By its name, which costs no request.
        is_gguf().then_some(FileKind::Gguf)
    } else {
        refuse_input(&args.src)?;
        refuse_missing(&args.src)?;
        what_it_is(&args.src)
    };
    match found {
        Some(FileKind::LegacyGgml { .. }) => convert_legacy::run(args.of_legacy()?, console),
        Some(FileKind::Gguf) if args.back.is_given() => convert_back::run(back(args)?, console),
        _ if args.back.is_given() => Err(Failure::new(format_args!(
            "{}: not a GGUF file; --to converts only GGUF files",
            shown(&args.src)
        ))),
        Some(FileKind::Gguf) => {
            let hint = "--to safetensors converts it to a checkpoint; `ggmill quantize` changes \
                        the types of its tensors, `ggmill edit` its metadata, and `ggmill repack` \
                        its alignment, byte order or format version";
            Err(Failure::new(format_args!("{}: is already a GGUF file", shown(&args.src)))
                .with_hint(Some(hint.to_owned())))
        }
        _ if PeftAdapter::is_at(&args.src) => convert_lora::run(args.of_adapter()?, console),
        _ if args.base.is_some() => {
            let why = "is not an adapter (it has no adapter_config.json); --base applies only to \
                       adapters";
            Err(Failure::new(format_args!("{}: {why}", shown(&args.src))))
        }
        _ => convert_checkpoint(args, console),
    }
}

fn convert_checkpoint(args: Args, console: Console) -> Result<Status, Failure> {
    let checkpoint = convert_source::open(&args.src, args.vocab_only)?;
    let catalogue = catalogue(&args.arch_file)?;
    let found = if args.mmproj {
        catalogue.for_projector(checkpoint.config())
    } else {
        catalogue.for_checkpoint(checkpoint.config())
    };
    let architecture = match found {
        Ok(architecture) => architecture,
        Err(error) => {
            // A description on standard output is for those who redirect it.
            let prints = args.output.is_none() && console.width().is_none();
            let console = prints.then_some(console);
            return Err(unknown_class(error, args.mmproj, &catalogue, &checkpoint, console)?);
        }
    };
    let drafted_for = convert_source::target(architecture, args.target.as_deref(), &args.src)?;
    let goal = args.target_size.map(Goal::Size).or(args.target_bpw.map(Goal::BitsPerWeight));
    let mut auto = None;
    let (float_type, target) = match args.to {
        _ if goal.is_some() => (own_type(&checkpoint), Some(Target::copy())),
        ConversionType::Auto => (auto.insert(AutoType::of(&checkpoint)).file_type, None),
        ConversionType::Plain(file_type) => (file_type, None),
        ConversionType::Quantized(target) => (own_type(&checkpoint), Some(target)),
    };
    if target.is_none() && args.types.is_given() {
        return Err(Failure::new(format_args!(
            "options for quantization were given, but they have no effect on {float_type}"
        ))
        .with_hint(Some("they apply to mixtures, such as --type Q4_K_M".to_owned())));
    }
    let type_name = target.map_or_else(|| float_type.to_string(), |to| to.name().to_owned());
    let prefix = if args.mmproj { "mmproj-" } else { "" };
    let other_name = format!("{prefix}{}-{type_name}", checkpoint.name().unwrap_or("model"));
    let output = args.output.as_deref().map(|output| templated(output, &type_name));
    let inputs: Vec<PathBuf> = checkpoint
        .files()
        .map(Path::to_owned)
        .chain(args.types.files().cloned())
        .chain(args.arch_file)
        .chain(args.metadata.clone())
        .chain(drafted_for.iter().flat_map(|target| target.files().map(Path::to_owned)))
        .chain(args.verify.clone())
        .collect();
    let cut = args.shard_limit.options();
    let logits = args.verify.as_deref().map(recorded).transpose()?;
    if logits.is_some() && !architecture.has_graph() {
        return Err(without_graph(architecture.name(), &catalogue));
    }
    let destination = Destination {
        place: Place::of(output.as_deref()),
        other_name: &other_name,
        inputs: &inputs,
        cut: cut.as_ref(),
        force: args.force,
        dry_run: args.dry_run,
        json: args.json,
        rules: (!args.no_check).then_some(&catalogue),
        verify: logits.as_ref().map(|logits| (logits, &catalogue)),
    };
    destination.look_ahead()?;
    let mut options = ConvertOptions::new(float_type);
    let is_named = args.name.is_some() || args.metadata.is_some();
    options.name = args.name;
    options.no_vocab = args.no_vocab;
    options.pre = args.pre;
    options.vocab_only = args.vocab_only;
    options.metadata = args.metadata.as_deref().map(metadata_override).transpose()?;
    let with_target = drafted_for.as_ref().map(|target| WithTarget::new(&checkpoint, target));
    if let (Some(both), Some(target)) = (&with_target, &drafted_for)
        && architecture.vocabulary_kinds().contains(&VocabularyKind::Target)
        && !options.no_vocab
    {
        options.target_vocabulary =
            convert_source::target_vocabulary(both, target.config(), &catalogue)?;
    }
    let refused_here = |error: ggmill_pipeline::Error| {
        let hint = match error.kind() {
            ErrorKind::PreTokenizer => Some(
                "--pre NAME sets the pre-tokenizer name without checking it; --no-vocab converts \
                 only the weights"
                    .to_owned(),
            ),
            ErrorKind::Vocabulary => Some("--no-vocab converts only the weights".to_owned())
                .filter(|_| !options.vocab_only),
            _ => None,
        };
        Failure::new(error).with_hint(hint)
    };
    let source: &dyn Pretrained = match &with_target {
        Some(both) => both,
        None => &checkpoint,
    };
    let mut recipe =
        ggmill_convert::convert(source, architecture, &options).map_err(refused_here)?;
    if let Some(auto) = auto.filter(|_| !recipe.tensors.is_empty()) {
        let exact = if auto.rounds() { "; --type F32 avoids rounding" } else { "" };
        recipe.notes.insert(0, format!("type {auto}{exact}"));
    }
    tell_of_missing(&recipe, &args.src, is_named, args.no_vocab, console);
    if args.with_graph {
        write_graph(&mut recipe, architecture)?;
    }
    let projector = catalogue.for_projector(checkpoint.config()).ok().filter(|_| !args.mmproj);
    if projector.is_some_and(|found| ggmill_convert::has_projector(&checkpoint, found)) {
        let note = "the checkpoint has vision or audio encoders; --mmproj converts them";
        recipe.notes.push(note.to_owned());
    }
    let mut refusal = None;
    if let Some(target) = target {
        let mut options = QuantizeOptions::new(target);
        let names = recipe.tensors.iter().map(|tensor| RawStr::new(&tensor.name));
        args.types.apply(&mut options, &names, console)?;
        if let Some(goal) = goal {
            let shrink = || smaller(&recipe.source_tensors(), &options);
            let fit = choose(goal, shrink, console, |run, progress| {
                fit_recipe(&recipe, &checkpoint, &options, cut.as_ref(), goal, run, progress)
            })?;
            options.types = Some(fit.types);
        }
        if args.dry_run {
            // What only a run is refused for, importance that is missing, ends a dry run too.
            refusal = quantize_recipe(&recipe, &options).map_err(refused).err();
        }
        options.dry_run = args.dry_run;
        recipe = quantize_recipe(&recipe, &options).map_err(refused)?;
    }
    let status = destination.write(recipe, &checkpoint, console)?;
    refusal.map_or(Ok(status), Err)
}

/// Puts the computation graph of the model into its metadata.
fn write_graph(recipe: &mut Recipe, architecture: &Architecture) -> Result<(), Failure> {
    let names: HashSet<&[u8]> = recipe.tensors.iter().map(|tensor| &*tensor.name).collect();
    let resolved = architecture.resolve_metadata(&recipe.metadata).map_err(Failure::new)?;
    let graph = resolved.graph(&|name| names.contains(name.as_bytes()));
    graph.and_then(|graph| graph.write(&mut recipe.metadata)).map_err(Failure::new)
}

/// Says what the checkpoint lacks that a model needs when it is published.
fn tell_of_missing(recipe: &Recipe, src: &Path, is_named: bool, no_vocab: bool, console: Console) {
    if lacks_vocabulary(recipe) && !no_vocab {
        console.warn(
            "the checkpoint has no tokenizer files, so the model cannot process text; add them \
             (tokenizer.json or tokenizer.model, tokenizer_config.json), or use --no-vocab",
        );
    }
    if let Some(name) = convert_source::name_in_cache(src).filter(|_| !is_named) {
        console.note(format_args!(
            "the directory is the cached copy of {name:?}; --name sets this as the model's name"
        ));
    }
}

/// The path of an output, in which `{ftype}` is replaced by the type, as convert_hf_to_gguf.py does.
fn templated(output: &Path, type_name: &str) -> PathBuf {
    let Some(name) = output.file_name().and_then(|name| name.to_str()) else {
        return output.to_owned();
    };
    let (small, large) = (type_name.to_ascii_lowercase(), type_name.to_ascii_uppercase());
    let filled = [("{}", &small), ("{ftype}", &small), ("{outtype}", &small)]
        .into_iter()
        .chain([("{FTYPE}", &large), ("{OUTTYPE}", &large)])
        .fold(name.to_owned(), |name, (pattern, text)| name.replace(pattern, text));
    if filled == name { output.to_owned() } else { output.with_file_name(filled) }
}

/// What is asked for with a GGUF file.
fn back(args: Args) -> Result<convert_back::Request, Failure> {
    let ggml_type = match args.to {
        ConversionType::Auto => None,
        ConversionType::Plain(FileType::F32) => Some(GgmlType::F32),
        ConversionType::Plain(FileType::F16) => Some(GgmlType::F16),
        ConversionType::Plain(FileType::BF16) => Some(GgmlType::BF16),
        _ => {
            let message = "expected F32, F16, BF16 or auto for the tensors of a checkpoint";
            return Err(Failure::new(format_args!("{message}")));
        }
    };
    for (is_given, option) in [
        (args.name.is_some(), "--name"),
        (args.metadata.is_some(), "--metadata"),
        (args.pre.is_some(), "--pre"),
        (args.json, "--json"),
        (args.mmproj, "--mmproj"),
        (args.with_graph, "--with-graph"),
        (args.base.is_some(), "--base"),
        (args.target.is_some(), "--target"),
        (args.target_size.is_some(), "--target-size"),
        (args.target_bpw.is_some(), "--target-bpw"),
        (args.types.is_given(), "options for quantization"),
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
    Ok(convert_back::Request {
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

impl Args {
    /// Refuses what only checkpoints have.
    fn refuse_for_legacy(&self) -> Result<(), Failure> {
        let of_checkpoints = [
            ("--to", self.back.is_given()),
            ("--base", self.base.is_some()),
            ("--target", self.target.is_some()),
            ("--mmproj", self.mmproj),
            ("--with-graph", self.with_graph),
            ("--verify", self.verify.is_some()),
            ("--no-vocab", self.no_vocab),
            ("--vocab-only", self.vocab_only),
            ("--pre", self.pre.is_some()),
            ("--metadata", self.metadata.is_some()),
            ("--arch-file", !self.arch_file.is_empty()),
            ("--split-max-size and --split-max-tensors", self.shard_limit.options().is_some()),
            (
                "--target-size and --target-bpw",
                self.target_size.is_some() || self.target_bpw.is_some(),
            ),
            ("options for quantization", self.types.is_given()),
        ];
        match of_checkpoints.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(Failure::new(format_args!("{option}: not supported for legacy files")))
            }
            None => Ok(()),
        }
    }

    /// What they ask for of a legacy file.
    fn of_legacy(self) -> Result<convert_legacy::Request, Failure> {
        self.refuse_for_legacy()?;
        let Self { src, output, to, name, no_check, force, dry_run, json, legacy, .. } = self;
        Ok(convert_legacy::Request {
            src,
            output,
            has_type: !matches!(to, ConversionType::Auto),
            name,
            legacy,
            no_check,
            force,
            dry_run,
            json,
        })
    }

    /// The conversion of an adapter. Refuses what only models have.
    fn of_adapter(self) -> Result<convert_lora::Request, Failure> {
        let file_type = match self.to {
            ConversionType::Auto => None,
            ConversionType::Plain(file_type) => Some(file_type),
            ConversionType::Quantized(target) => {
                return Err(Failure::new(format_args!(
                    "{}: an adapter can be F32, F16, BF16 or Q8_0",
                    target.name()
                )));
            }
        };
        let of_models = [
            ("--target", self.target.is_some()),
            ("--no-vocab", self.no_vocab),
            ("--vocab-only", self.vocab_only),
            ("--pre", self.pre.is_some()),
            ("--mmproj", self.mmproj),
            ("--with-graph", self.with_graph),
            ("--no-check", self.no_check),
            ("--verify", self.verify.is_some()),
            ("--split-max-size and --split-max-tensors", self.shard_limit.options().is_some()),
            (
                "--target-size and --target-bpw",
                self.target_size.is_some() || self.target_bpw.is_some(),
            ),
            ("options for quantization", self.types.is_given()),
        ];
        if let Some((option, _)) = of_models.iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::new(format_args!("{option}: not supported for adapters")));
        }
        Ok(convert_lora::Request {
            src: self.src,
            base: self.base,
            output: self.output,
            file_type,
            name: self.name,
            metadata: self.metadata,
            arch_file: self.arch_file,
            force: self.force,
            dry_run: self.dry_run,
            json: self.json,
        })
    }
}

//! `ggmill convert`: a checkpoint becomes a GGUF file.

use std::path::{Path, PathBuf};

use ggmill_convert::ConvertOptions;
use ggmill_core::FileType;
use ggmill_formats::Safetensors;
use ggmill_inspect::FileKind;
use ggmill_pipeline::Pretrained as _;
use ggmill_quantize::Target;

use crate::arch_file::catalogue;
use crate::commands::convert_legacy;
use crate::console::Console;
use crate::making::Making;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::source::what_it_is;

/// Turn a model checkpoint into a GGUF file
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill convert Llama-3.2-1B/ -o llama.gguf --type bf16
  ggmill convert my-model/ --type q8_0 --dry-run

SRC is a directory with config.json and model.safetensors (or its shards), as Hugging Face
has them. The architecture comes from config.json; --arch-file adds one of your own.

SRC may also be a LLaMA file from before GGUF (GGML, GGMF, GGJT): `ggmill convert old.bin`.
Its tensors keep their types; blocks that have changed since become those of today.")]
pub(crate) struct Args {
    /// The checkpoint: a directory, a .safetensors file with config.json beside it, or a file from
    /// before GGUF
    src: PathBuf,
    /// The file to write; by default SRC's name and the type, in the current directory
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What most tensors become: f32, f16, bf16 or q8_0
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = file_type)]
    file_type: Option<FileType>,
    /// The model's name in the metadata; by default from SRC
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Leave out the vocabulary of a checkpoint that has a tokenizer
    #[arg(long)]
    no_vocab: bool,
    /// Write the metadata alone, vocabulary included: a file without tensors
    #[arg(long, conflicts_with = "no_vocab")]
    vocab_only: bool,
    /// A description of an architecture (TOML) to use besides the built-in ones
    #[arg(long, value_name = "FILE")]
    arch_file: Vec<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// Print what would be written, to the byte, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the plan as JSON instead of a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    legacy: convert_legacy::LegacyArgs,
}

fn file_type(name: &str) -> Result<FileType, String> {
    const PLAIN: [FileType; 4] = [FileType::F32, FileType::F16, FileType::BF16, FileType::Q8_0];
    if let Some(found) = name.parse::<FileType>().ok().filter(|found| PLAIN.contains(found)) {
        return Ok(found);
    }
    let expected = "expected f32, f16, bf16 or q8_0";
    Err(match name.parse::<Target>() {
        Ok(target) => format!(
            "{expected}; from a file of one of these `ggmill quantize` makes {}",
            target.name()
        ),
        Err(_) => expected.to_owned(),
    })
}

pub(crate) fn run(args: Args, console: Console) -> Result<Status, Failure> {
    match what_it_is(&args.src) {
        Some(FileKind::LegacyGgml { .. }) => {
            let Args { src, output, file_type, name, force, dry_run, json, legacy, .. } = args;
            let request = convert_legacy::Request {
                src,
                output,
                has_type: file_type.is_some(),
                name,
                legacy,
                force,
                dry_run,
                json,
            };
            return convert_legacy::run(request, console);
        }
        Some(FileKind::Gguf) => {
            let hint = "`ggmill quantize` changes the types of its tensors, `ggmill edit` its \
                        metadata, `ggmill repack` its form";
            return Err(Failure::new(format_args!("{}: is a GGUF file already", shown(&args.src)))
                .with_hint(Some(hint.to_owned())));
        }
        _ => {}
    }
    let checkpoint = Safetensors::open(&args.src).map_err(|error| {
        let given_config = what_it_is(&args.src) == Some(FileKind::Json);
        let hint = given_config.then(|| {
            "this is a JSON file; give the directory it lies in, or the file with the weights"
                .to_owned()
        });
        let hint = hint.or_else(|| what_instead(&args.src)).or_else(|| what_instead(error.path()?));
        Failure::new(error).with_hint(hint)
    })?;
    let file_type =
        args.file_type.ok_or_else(|| Failure::new("no --type: expected f32, f16, bf16 or q8_0"))?;
    let catalogue = catalogue(&args.arch_file)?;
    let architecture = catalogue.for_checkpoint(checkpoint.config()).map_err(|error| {
        Failure::new(error).with_hint(Some(
            "--arch-file adds a description of your own; docs/formats/architecture.md says how to \
             write one"
                .to_owned(),
        ))
    })?;
    let mut options = ConvertOptions::new(file_type);
    options.name = args.name;
    options.no_vocab = args.no_vocab;
    options.vocab_only = args.vocab_only;
    let refused = |error: ggmill_pipeline::Error| {
        let hint = (ggmill_convert::has_tokenizer(checkpoint.side_files()) && !options.no_vocab)
            .then(|| "--no-vocab converts the weights alone".to_owned());
        Failure::new(error).with_hint(hint)
    };
    let plan = ggmill_convert::convert(&checkpoint, architecture, &options)
        .and_then(|recipe| recipe.plan(&checkpoint))
        .map_err(refused)?;

    let output = args.output.unwrap_or_else(|| default_output(checkpoint.name(), file_type));
    let inputs: Vec<PathBuf> =
        checkpoint.files().map(Path::to_owned).chain(args.arch_file).collect();
    Making {
        output: &output,
        inputs: &inputs,
        force: args.force,
        dry_run: args.dry_run,
        json: args.json,
    }
    .run(&plan, &checkpoint, console)
}

/// What a file is that should be a part of a checkpoint and is not.
fn what_instead(path: &Path) -> Option<String> {
    match what_it_is(path)? {
        FileKind::Safetensors => None,
        FileKind::Json if path.extension().is_some_and(|extension| extension == "json") => None,
        found => Some(format!(
            "this is {found}{}",
            found.hint().map(|advice| format!("; {advice}")).unwrap_or_default()
        )),
    }
}

fn default_output(name: Option<&str>, file_type: FileType) -> PathBuf {
    Path::new(&format!("{}-{file_type}.gguf", name.unwrap_or("model"))).to_owned()
}

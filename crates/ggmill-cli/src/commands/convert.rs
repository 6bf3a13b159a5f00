//! `ggmill convert`: a checkpoint becomes a GGUF file.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue};
use ggmill_convert::{ConvertOptions, Plan, Pretrained as _, Safetensors};
use ggmill_core::{FileType, PlannedTensor, RawStr};
use ggmill_io::{FileSink, Overwrite};

use crate::commands::inspect;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::progress::Bar;

/// Turn a model checkpoint into a GGUF file
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill convert Llama-3.2-1B/ -o llama.gguf --type bf16
  ggmill convert my-model/ --type q8_0 --dry-run

SRC is a folder with config.json and model.safetensors (or its shards), as Hugging Face
has them. The architecture comes from config.json; --arch-file adds one of your own.")]
pub(crate) struct Args {
    /// The checkpoint: a folder, or a .safetensors file with config.json beside it
    src: PathBuf,
    /// The file to write; by default SRC's name and the type, in the current folder
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What most tensors become: f32, f16, bf16 or q8_0
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = file_type)]
    file_type: FileType,
    /// The model's name in the metadata; by default from SRC
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Leave out the vocabulary of a checkpoint that has a tokenizer
    #[arg(long)]
    no_vocab: bool,
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
}

fn file_type(name: &str) -> Result<FileType, String> {
    FileType::from_name(name).ok_or_else(|| "expected f32, f16, bf16 or q8_0".to_owned())
}

pub(crate) fn run(args: Args, console: Console) -> Result<Status, Failure> {
    let checkpoint = Safetensors::open(&args.src).map_err(Failure::new)?;
    let catalogue = catalogue(&args.arch_file)?;
    let architecture = catalogue.for_checkpoint(checkpoint.config()).map_err(|error| {
        Failure::new(error).with_hint(Some("--arch-file adds a description of your own; docs/formats/architecture.md says how to write one".to_owned()))
    })?;
    let mut options = ConvertOptions::new(args.file_type);
    options.name = args.name;
    options.no_vocab = args.no_vocab;
    let refused = |error: ggmill_convert::Error| {
        let hint = (checkpoint.has_tokenizer() && !options.no_vocab).then(|| "--no-vocab converts the weights alone".to_owned());
        Failure::new(error).with_hint(hint)
    };
    let plan = ggmill_convert::convert(&checkpoint, architecture, &options).and_then(|recipe| recipe.plan(&checkpoint)).map_err(refused)?;

    let output = args.output.unwrap_or_else(|| default_output(checkpoint.name(), args.file_type));
    if args.dry_run {
        let mut out = console.text();
        if args.json {
            json(&mut out, &plan, &output, false)?;
        } else {
            table(&mut out, &plan, &output)?;
        }
        out.flush()?;
        return Ok(tell(&plan, console));
    }
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let mut sink = FileSink::create(&output, overwrite).map_err(|error| {
        let exists = error.kind() == ggmill_io::ErrorKind::Exists;
        Failure::new(error).with_hint(exists.then(|| "--force replaces it".to_owned()))
    })?;
    sink.reserve(plan.layout().total_len()).map_err(Failure::new)?;
    let mut bar = Bar::new(console);
    let sink = ggmill_convert::run(&plan, &checkpoint, sink, &mut |progress| {
        bar.update(progress.written, progress.total, progress.tensor);
        ControlFlow::Continue(())
    })
    .map_err(Failure::new)?;
    sink.commit().map_err(Failure::new)?;
    drop(bar);

    if args.json {
        let mut out = console.bytes();
        json(&mut out, &plan, &output, true)?;
        out.flush()?;
        return Ok(tell(&plan, console));
    }
    console.note(format_args!("wrote {}", shown(&output)));
    tell(&plan, console);
    inspect::summarize(&output, console)
}

/// What a person should know of the choices made.
fn tell(plan: &Plan, console: Console) -> Status {
    for note in plan.notes() {
        console.note(note);
    }
    Status::Fine
}

fn catalogue(files: &[PathBuf]) -> Result<Catalogue, Failure> {
    files.iter().try_fold(Catalogue::new(), |catalogue, path| {
        let shown = shown(path);
        let text = std::fs::read_to_string(path).map_err(|error| Failure::new(format_args!("{shown}: {error}")))?;
        let architecture = Architecture::parse(&text).map_err(|error| Failure::new(format_args!("{shown}: {error}")))?;
        Ok(catalogue.with(architecture))
    })
}

fn default_output(name: Option<&str>, file_type: FileType) -> PathBuf {
    Path::new(&format!("{}-{file_type}.gguf", name.unwrap_or("model"))).to_owned()
}

/// The plan as a table: what would stand where.
fn table(out: &mut dyn Write, plan: &Plan, output: &Path) -> io::Result<()> {
    let layout = plan.layout();
    let names: Vec<String> = layout.tensors().iter().map(|tensor| tensor.name().to_string()).collect();
    let shapes: Vec<String> = layout.tensors().iter().map(|tensor| tensor.shape().to_string()).collect();
    let widest = |column: &[String]| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (name_width, shape_width) = (widest(&names), widest(&shapes));
    for ((tensor, name), shape) in layout.tensors().iter().zip(&names).zip(&shapes) {
        writeln!(out, "{name:<name_width$}  {shape:<shape_width$}  {:<5}  {:>14} bytes at {:#x}", tensor.ggml_type(), tensor.size(), tensor.offset())?;
    }
    let (tensors, data, total) = (layout.tensors().len(), layout.data_offset(), layout.total_len());
    writeln!(out, "{}: {tensors} tensors, data from {data:#x}, {total} bytes in all; nothing was written", shown(output))
}

/// The plan as JSON (`docs/formats/plan.md`).
fn json(out: &mut dyn Write, plan: &Plan, output: &Path, written: bool) -> io::Result<()> {
    let layout = plan.layout();
    let tensor = |tensor: &PlannedTensor| {
        serde_json::json!({
            "name": tensor.name().to_string_lossy(),
            "type": tensor.ggml_type().to_string(),
            "shape": tensor.shape().dimensions(),
            "offset": tensor.offset(),
            "size": tensor.size(),
        })
    };
    let plan = serde_json::json!({
        "schema": "ggmill.plan/1",
        "output": output.to_string_lossy(),
        "written": written,
        "file_size": layout.total_len(),
        "data_offset": layout.data_offset(),
        "alignment": layout.alignment().get(),
        "notes": plan.notes(),
        "tensors": layout.tensors().iter().map(tensor).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &plan)?;
    writeln!(out)
}

fn shown(path: &Path) -> RawStr<'_> {
    RawStr::new(path.as_os_str().as_encoded_bytes())
}

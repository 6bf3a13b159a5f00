//! `ggmill convert` of files from before GGUF, and what `ggmill inspect` shows of them.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_convert::LegacyOptions;
use ggmill_core::RawStr;
use ggmill_formats::Legacy;
use ggmill_pipeline::Checkpoint as _;
use serde_json::json;

use crate::commands::convert;
use crate::console::Console;
use crate::making::{Making, shown};
use crate::outcome::{Failure, Status};

/// What these files do not say themselves.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "For files from before GGUF, which do not say it")]
pub(crate) struct Said {
    /// Tokens of context: 2048 for LLaMA, 4096 for LLaMA 2
    #[arg(long, value_name = "N", default_value_t = 2048)]
    context_length: u32,
    /// The epsilon of the norms: 1e-6 for LLaMA, 1e-5 for LLaMA 2
    #[arg(long, value_name = "X", default_value_t = 5e-6)]
    eps: f32,
    /// Heads of keys and values, where they are fewer than of queries: 8 for LLaMA 2 70B
    #[arg(long, value_name = "N")]
    kv_heads: Option<u32>,
}

pub(super) fn run(args: convert::Args, console: Console) -> Result<Status, Failure> {
    if args.file_type.is_some() {
        let hint = Some("without --type its tensors keep their types; `ggmill quantize` changes them afterwards".to_owned());
        return Err(Failure::new(format_args!("{}: a file from before GGUF is not converted to another type", shown(&args.src))).with_hint(hint));
    }
    let legacy = Legacy::open(&args.src).map_err(Failure::new)?;
    let mut options = LegacyOptions::default();
    options.name = args.name;
    options.context_length = args.legacy.context_length;
    options.rms_norm_epsilon = args.legacy.eps;
    options.head_count_kv = args.legacy.kv_heads;
    let plan = ggmill_convert::convert_legacy(&legacy, &options).and_then(|recipe| recipe.plan(&legacy)).map_err(Failure::new)?;
    let output = args.output.unwrap_or_else(|| PathBuf::from(args.src.file_name().unwrap_or_default()).with_extension("gguf"));
    Making { output: &output, inputs: &[args.src], force: args.force, dry_run: args.dry_run, json: args.json }.run(&plan, &legacy, console)
}

/// What is in such a file.
pub(super) fn show(path: &Path, as_json: bool, console: Console) -> Result<Status, Failure> {
    let legacy = Legacy::open(path).map_err(Failure::new)?;
    let tensors = || legacy.tensors().iter().enumerate().map(|(number, tensor)| (tensor, legacy.place(number).unwrap_or_default(), legacy.block_note(number)));
    if as_json {
        let tensors: Vec<_> = tensors()
            .map(|(tensor, (offset, size), note)| {
                json!({
                    "name": tensor.name().to_string_lossy(), "type": tensor.ggml_type.to_string(), "shape": tensor.shape.dimensions(),
                    "offset": offset, "size": size, "blocks": note,
                })
            })
            .collect();
        let parameters: serde_json::Map<_, _> = legacy.parameters().iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let document = json!({
            "schema": "ggmill.legacy/1", "container": legacy.container().to_string(), "family": legacy.family().to_string(),
            "parameters": parameters, "vocabulary": legacy.vocabulary().len(), "tensors": tensors,
        });
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &document)?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let mut out = console.text();
    writeln!(out, "{}\n  {} of {}, from before GGUF", shown(path), legacy.container(), legacy.family())?;
    for (name, value) in legacy.parameters() {
        writeln!(out, "  {name:<14} {value}")?;
    }
    if legacy.vocabulary().len() > 0 {
        let some: Vec<String> = legacy.vocabulary().skip(259).take(5).map(|(token, _)| format!("{:?}", RawStr::new(token))).collect();
        let some = if some.is_empty() { String::new() } else { format!(": … {} …", some.join(" ")) };
        writeln!(out, "  {:<14} {} tokens{some}", "vocabulary", legacy.vocabulary().len())?;
    }
    writeln!(out, "\nTensors · {}", legacy.tensors().len())?;
    let width = legacy.tensors().iter().map(|tensor| tensor.name().to_string().chars().count()).max().unwrap_or(0);
    for (tensor, (offset, size), note) in tensors() {
        let note = note.map(|note| format!("  ({note})")).unwrap_or_default();
        writeln!(
            out,
            "  {:<width$}  {:<14} {:<5} {size:>12} bytes at {offset:#x}{note}",
            tensor.name().to_string(),
            tensor.shape.to_string(),
            tensor.ggml_type
        )?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

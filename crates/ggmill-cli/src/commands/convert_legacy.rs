//! `ggmill convert` of legacy files.

use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_convert::LegacyOptions;
use ggmill_pipeline::formats::Legacy;

use crate::commands::convert_write::{Destination, Place};
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::shown;

/// Values that these files do not contain.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Legacy files (values that they do not store)")]
pub(crate) struct LegacyArgs {
    /// Context length in tokens: 2048 for LLaMA, 4096 for LLaMA 2
    #[arg(long, value_name = "N", default_value_t = 2048)]
    context_length: u32,
    /// RMS norm epsilon: 1e-6 for LLaMA, 1e-5 for LLaMA 2; the default is that of llama.cpp's
    /// legacy converter
    #[arg(long, value_name = "X", default_value_t = 5e-6)]
    eps: f32,
    /// Number of KV heads, if there are fewer KV heads than attention heads: 8 for LLaMA 2 70B
    #[arg(long, value_name = "N")]
    kv_heads: Option<u32>,
}

/// A conversion as it is asked for.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
pub(super) struct Request {
    pub(super) src: PathBuf,
    pub(super) output: Option<PathBuf>,
    pub(super) has_type: bool,
    pub(super) name: Option<String>,
    pub(super) legacy: LegacyArgs,
    pub(super) no_check: bool,
    pub(super) force: bool,
    pub(super) dry_run: bool,
    pub(super) json: bool,
}

pub(super) fn run(args: Request, console: Console) -> Result<Status, Failure> {
    if args.has_type {
        let hint = Some(
            "without --type, the tensors keep their types; `ggmill quantize` can change them \
             afterwards"
                .to_owned(),
        );
        return Err(Failure::new(format_args!(
            "{}: a legacy file cannot be converted to a different type",
            shown(&args.src)
        ))
        .with_hint(hint));
    }
    let name = Path::new(args.src.file_name().unwrap_or_default()).with_extension("gguf");
    let output = Place::of(args.output.as_deref()).path(|| name.to_string_lossy().into_owned());
    let inputs = [args.src];
    let catalogue = Catalogue::new();
    let destination = Destination {
        place: Place::File(&output),
        other_name: "model",
        inputs: &inputs,
        cut: None,
        force: args.force,
        dry_run: args.dry_run,
        json: args.json,
        rules: (!args.no_check).then_some(&catalogue),
        verify: None,
    };
    destination.look_ahead()?;
    let legacy = Legacy::open(&inputs[0]).map_err(Failure::new)?;
    let mut options = LegacyOptions::default();
    options.name = args.name;
    options.context_length = args.legacy.context_length;
    options.rms_norm_epsilon = args.legacy.eps;
    options.head_count_kv = args.legacy.kv_heads;
    let recipe = ggmill_convert::convert_legacy(&legacy, &options).map_err(Failure::new)?;
    destination.write(recipe, &legacy, console)
}

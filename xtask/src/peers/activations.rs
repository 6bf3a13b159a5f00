//! What the matrices of models are multiplied with, as libllama computes it.

use std::fs;

use super::{environment, logits};
use crate::process::{Done, root};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the sums of some tiny models into crates/ggmill-run/tests/fixtures
    #[arg(long, conflicts_with = "compare")]
    record: bool,
    /// A model, a JSON array of token IDs, the tokens of a chunk, and an importance matrix made of
    /// them with --process-output
    #[arg(long, num_args = 4, required_unless_present = "record")]
    compare: Vec<String>,
}

pub(super) fn execute(args: &Args) -> Done {
    let mut script = environment::script("activations.py")?;
    if !args.record {
        return crate::process::run(script.arg("compare").args(&args.compare));
    }
    let models = logits::models()?;
    let names = fs::read_to_string(models.join("measured.txt"))
        .map_err(|error| format!("measured.txt: {error}"))?;
    let fixtures = root().join("crates/ggmill-run/tests/fixtures");
    script.arg("record").arg(models).arg(fixtures).args(names.split_whitespace());
    crate::process::run(&mut script)
}

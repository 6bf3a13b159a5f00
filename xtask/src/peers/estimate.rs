//! Memory, as `ggmill estimate` has it and as libllama accounts for it.

use std::path::PathBuf;

use super::{classes, environment, ggmill};
use crate::process::{Done, root, run};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write what libllama accounts for into crates/ggmill-estimate/tests/reference
    #[arg(long, conflicts_with = "collect")]
    record: bool,
    /// Write the headers of converted recipes there (needs the environment of classes)
    #[arg(long)]
    collect: bool,
}

pub(super) fn execute(args: &Args) -> Done {
    let directory = root().join("crates/ggmill-estimate/tests/reference");
    let [models, bytes]: [PathBuf; 2] =
        ["models.txt", "bytes.tsv"].map(|name| directory.join(name));
    if args.collect {
        return run(classes::script_beside("estimate.py")?.arg("collect").arg(models));
    }
    let mut script = environment::script("estimate.py")?;
    if args.record {
        return run(script.arg("reference").arg(models).arg(bytes));
    }
    run(script.arg("compare").arg(models).arg(bytes).arg(ggmill()?))
}

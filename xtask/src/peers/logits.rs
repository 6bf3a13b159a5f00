//! What tiny models compute, as ggmill-run does it and as libllama does, or transformers, or NumPy.

use std::fs;
use std::path::PathBuf;

use super::environment;
use crate::process::{Done, cargo, root, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write what the other side computes into crates/ggmill-run/tests/fixtures
    #[arg(long)]
    record: bool,
    /// Compare the models that libllama does not run, with transformers (which needs torch)
    #[arg(long)]
    transformers: bool,
}

/// Writes the tiny models, and says where.
pub(super) fn models() -> Result<PathBuf, String> {
    let models = target()?.join("peers/logits");
    if models.is_dir() {
        fs::remove_dir_all(&models).map_err(|error| format!("{}: {error}", models.display()))?;
    }
    run(cargo(&["run", "--quiet", "--package=ggmill-run", "--example=models", "--"]).arg(&models))?;
    Ok(models)
}

pub(super) fn execute(args: &Args) -> Done {
    let models = models()?;
    let scripts: &[&str] = if args.transformers {
        &["logits_transformers.py"]
    } else {
        &["logits.py", "logits_wavtokenizer.py"]
    };
    for name in scripts {
        let mut script = environment::script(name)?;
        if args.record {
            let fixtures = root().join("crates/ggmill-run/tests/fixtures");
            run(script.arg("record").arg(&models).arg(fixtures))?;
        } else {
            run(script.arg("compare").arg(&models))?;
        }
    }
    Ok(())
}

//! Files that are reshaped: what others make of them, and how long it takes beside copying.

use std::fs;
use std::path::PathBuf;

use super::{environment, ggmill};
use crate::process::{Done, root, run, target};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// How many turns each side has
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// MB of the generated file
    #[arg(long, default_value_t = 2048)]
    megabytes: u32,
    /// The sources of llama.cpp, from which llama-gguf-hash is built to compare with
    #[arg(long)]
    llama_cpp: Option<PathBuf>,
    /// Where the generated file of 2 GB and what is made of it lie meanwhile; 10 GB are needed [default: a folder of the target directory]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Only hold the files against gguf, libllama and the C library
    #[arg(long)]
    no_time: bool,
}

pub(super) fn execute(args: &Args) -> Done {
    let ggmill = ggmill()?;
    run(environment::script("write.py")?.arg("check").arg(&ggmill).arg(root().join("crates/ggmill-testdata/real/stories260K")))?;
    if args.no_time {
        return Ok(());
    }
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => target()?.join("peers/write"),
    };
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut script = environment::script("write.py")?;
    script.arg("time").arg(&ggmill).arg(&folder).args([args.rounds, args.megabytes].map(|number| number.to_string())).args(&args.llama_cpp);
    run(&mut script)
}

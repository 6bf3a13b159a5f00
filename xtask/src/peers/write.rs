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
    /// The sources of llama.cpp, from which llama-gguf-hash and llama-gguf-split are built to
    /// compare with
    #[arg(long)]
    llama_cpp: Option<PathBuf>,
    /// Where the generated file of 2 GB and what is made of it lie meanwhile; 10 GB are needed
    /// [default: a directory of the target directory]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// After so many seconds no side has another turn
    #[arg(long, default_value_t = 240)]
    seconds: u32,
    /// Only hold the files against gguf, libllama and the C library
    #[arg(long)]
    no_time: bool,
}

pub(super) fn execute(args: &Args) -> Done {
    let ggmill = ggmill()?;
    let real = root().join("crates/ggmill-testdata/real");
    let mut legacy = super::legacy::generate()?;
    legacy.push(real.join("ggml-vocab.ggjt-v1.bin"));
    run(environment::script("write.py")?
        .arg(&ggmill)
        .arg(real.join("tinystories260K"))
        .args(legacy))?;
    if args.no_time {
        return Ok(());
    }
    let directory = match &args.directory {
        Some(directory) => directory.clone(),
        None => target()?.join("peers/write"),
    };
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut script = environment::script("write_speed.py")?;
    script
        .arg(&ggmill)
        .arg(&directory)
        .args([args.rounds, args.megabytes, args.seconds].map(|number| number.to_string()))
        .args(&args.llama_cpp);
    run(&mut script)
}

//! Tokens, compared with llama.cpp's.

use std::path::PathBuf;

use super::environment;
use crate::process::{Done, cargo, root, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A source tree of llama.cpp, with its vocabularies: `vendor/llama.cpp` of llama-cpp-python
    /// 0.3.36
    llama_cpp: PathBuf,
    /// Names of vocabularies, or beginnings followed by `*` [default: all]
    names: Vec<String>,
    /// Compare texts one by one where llama.cpp compiles regular expressions for each
    #[arg(long)]
    each: bool,
    /// Write what llama.cpp makes of small vocabularies into
    /// crates/ggmill-tokenizer/tests/vocabularies instead
    #[arg(long, conflicts_with_all = ["names", "each"])]
    record: bool,
}

pub(super) fn execute(args: &Args) -> Done {
    let mut script = environment::script("tokenization.py")?;
    let data = root().join("../shared/data");
    if args.record {
        let directory = root().join("crates/ggmill-tokenizer/tests/vocabularies");
        return run(script.arg("--record").arg(&args.llama_cpp).arg(data).arg(directory));
    }
    run(&mut cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package=ggmill-tokenizer",
        "--example=ids",
    ]))?;
    let ids = target()?.join("release/examples/ids");
    let cache = target()?.join("peers/tokens");
    script.arg(ids).arg(&args.llama_cpp).arg(data).arg(cache).args(&args.names);
    if args.each {
        script.arg("--each");
    }
    run(&mut script)
}

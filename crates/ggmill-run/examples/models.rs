//! Writes the tiny test models and the outputs that ggmill computes, for comparison with other programs.
//!
//! ```text
//! cargo run -p ggmill-run --example models DIRECTORY
//! ```
//!
//! For each model, it writes `NAME.gguf` and `NAME.ours` (F32, a row per token). `models.txt` has a line per
//! model, `NAME LIMIT OUTPUT PEER`: the maximum error, the kind of output (`logits`, `logits-of-two` with a
//! source, `embedding`), and the program to compare with. `tokens.txt` has the tokens of the text and of the
//! source, `NAME.tokens` the text of a model that needs a different one, and `NAME.source` the source
//! vectors. `measured.txt` lists the models whose activations are compared.
//!
//! Names after the directory select models:
//!
//! ```text
//! cargo run -p ggmill-run --example models DIRECTORY llama qwen3
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a chore may panic and prints its progress"
)]
#![allow(dead_code, reason = "the tests use the rest of the shared module")]

#[path = "../tests/it/models/mod.rs"]
mod models;

use std::fs;
use std::path::Path;

use ggmill_arch::graph::Output;
use ggmill_run::{Options, Program, Runner};
use models::{CASES, MEASURED, RECORDED, ROUNDED, SOURCE, TOKENS, UNLOADED, greatest_error};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let directory = Path::new(&directory);
    let names: Vec<String> = arguments.collect();
    fs::create_dir_all(directory).unwrap();
    let line = |tokens: &[u32]| tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let tokens = format!("{RECORDED}\n{}\n{}\n", line(&TOKENS), line(&SOURCE));
    fs::write(directory.join("tokens.txt"), tokens).unwrap();
    fs::write(directory.join("measured.txt"), MEASURED.join("\n")).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    let mut about = Vec::new();
    for case in
        CASES.iter().filter(|case| names.is_empty() || names.iter().any(|name| name == case.name))
    {
        fs::write(directory.join(format!("{}.gguf", case.name)), case.bytes()).unwrap();
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let text = case.text();
        if text != TOKENS {
            fs::write(directory.join(format!("{}.tokens", case.name)), line(&text)).unwrap();
        }
        let states = models::states(&runner, &program, &[&text]).unwrap();
        let output = runner.output(&program, &states, 0, 0..text.len()).unwrap();
        let bytes: Vec<u8> = output.iter().flat_map(|value| value.to_le_bytes()).collect();
        fs::write(directory.join(format!("{}.ours", case.name)), bytes).unwrap();
        if let Some(width) = program.source_width() {
            let vectors = models::source_vectors(width);
            let bytes: Vec<u8> = vectors.iter().flat_map(|value| value.to_le_bytes()).collect();
            fs::write(directory.join(format!("{}.source", case.name)), bytes).unwrap();
        }
        let output = match program.output() {
            Output::Embedding => "embedding",
            _ if program.has_source() => "logits-of-two",
            _ => "logits",
        };
        let peer = match case.name {
            name if UNLOADED.contains(&name) => "transformers",
            ROUNDED => "numpy",
            _ => "libllama",
        };
        about.push(format!("{} {:e} {output} {peer}", case.name, greatest_error(&program)));
    }
    fs::write(directory.join("models.txt"), about.join("\n") + "\n").unwrap();
}

//! Tiny models for another program to run, and what ggmill computes of them.
//!
//! ```text
//! cargo run -p ggmill-run --example models DIRECTORY    writes NAME.gguf and NAME.ours (f32, a row for each token) for each, tokens.txt, and the names of measured.txt
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a chore stops where something is missing and says what it does"
)]
#![allow(dead_code, reason = "the tests use more of what they share")]

#[path = "../tests/it/models.rs"]
mod models;

use std::fs;
use std::path::Path;

use ggmill_run::{Options, Program, Runner};
use models::{CASES, MEASURED, RECORDED, TOKENS};

fn main() {
    let directory = std::env::args().nth(1).expect("a directory");
    let directory = Path::new(&directory);
    fs::create_dir_all(directory).unwrap();
    let tokens: Vec<String> = TOKENS.iter().map(u32::to_string).collect();
    fs::write(directory.join("tokens.txt"), format!("{RECORDED}\n{}\n", tokens.join(" "))).unwrap();
    fs::write(directory.join("measured.txt"), MEASURED.join("\n")).unwrap();
    let runner = Runner::new(Options::default()).unwrap();
    for case in CASES {
        fs::write(directory.join(format!("{}.gguf", case.name)), case.bytes()).unwrap();
        let model = case.model();
        let program = Program::of(&model, case.described()).unwrap();
        let states = runner.states(&program, &[&TOKENS]).unwrap();
        let output = runner.output(&program, &states, 0, 0..TOKENS.len()).unwrap();
        let bytes: Vec<u8> = output.iter().flat_map(|value| value.to_le_bytes()).collect();
        fs::write(directory.join(format!("{}.ours", case.name)), bytes).unwrap();
        println!("{}", case.name);
    }
}

//! Tiny models of every described architecture, whole and with one thing wrong, for another program
//! to load.
//!
//! ```text
//! cargo run -p ggmill-check --example samples make DIRECTORY    writes the models, and a list of them with what `check` says
//! cargo run -p ggmill-check --example samples check DIRECTORY   says which errors `check` finds in the files of a directory
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a chore stops where something is missing and says what it does"
)]
#![allow(dead_code, reason = "the tests use more of what they share")]

#[path = "../tests/it/samples.rs"]
mod samples;
#[path = "../tests/it/support.rs"]
mod support;

use std::fs;
use std::io::{Result, Write as _};
use std::path::Path;

use ggmill_check::Severity;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", directory] => make(Path::new(directory)),
        ["check", directory] => check(Path::new(directory)),
        _ => panic!("expected make DIRECTORY or check DIRECTORY"),
    }
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    let mut list = fs::File::create(directory.join("list.tsv"))?;
    let mut number = 0;
    for (model, architecture, keys) in
        samples::models().iter().filter(|(_, architecture, _)| architecture.loader().is_some())
    {
        for sample in samples::samples(model, architecture, keys) {
            let bytes = sample.file.bytes();
            let verdict = if support::report(&bytes).has_errors() { "refuses" } else { "takes" };
            fs::write(directory.join(format!("{number}.gguf")), bytes)?;
            writeln!(list, "{number}\t{}\t{}\t{verdict}", sample.model, sample.change)?;
            number += 1;
        }
    }
    Ok(())
}

fn check(directory: &Path) -> Result<()> {
    let mut files: Vec<_> = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut faulty = 0;
    for file in &files {
        let report = support::report(&fs::read(file)?);
        let errors: Vec<_> = report
            .diagnostics()
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .collect();
        for error in &errors {
            println!(
                "{}: {} {}: {}",
                file.display(),
                error.rule.code,
                error.subject,
                error.message
            );
        }
        faulty += u32::from(!errors.is_empty());
    }
    println!("{} files, {faulty} with errors", files.len());
    Ok(())
}

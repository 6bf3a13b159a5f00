//! The speed of opening files, side by side: every reader in one run, on the same files, taking turns.

mod report;
mod worker;

use std::path::PathBuf;

use crate::process::{Done, cargo, root, run as run_command, target};

use self::worker::{Answer, Worker};
use super::{environment, gguf_files, vocabulary};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Files to open [default: gemma-4's vocabulary, and what is in ../shared/data/vocab-gguf and gguf]
    files: Vec<PathBuf>,
    /// How often each reader opens each file
    #[arg(long, default_value_t = 25)]
    rounds: u32,
    /// How often gguf does, which takes half a minute for the largest
    #[arg(long, default_value_t = 1)]
    slow_rounds: u32,
    /// Do without candle-core, which takes minutes to build
    #[arg(long)]
    no_candle: bool,
    /// Write the table into crates/ggmill-bench/RESULTS.md
    #[arg(long)]
    record: bool,
}

/// The sides, as the table heads them, and which worker plays each. The first is ours and the measure of the others.
const READERS: [Reader; 6] = [
    Reader { name: "ggmill", title: "ggmill (map)", side: Side::Rust, slow: false },
    Reader { name: "walk", title: "bare walk", side: Side::Rust, slow: false },
    Reader { name: "ggmill-read", title: "ggmill (read)", side: Side::Rust, slow: false },
    Reader { name: "c", title: "C reader", side: Side::Python, slow: false },
    Reader { name: "candle", title: "candle-core", side: Side::Candle, slow: false },
    Reader { name: "gguf-py", title: "gguf (Python)", side: Side::Python, slow: true },
];

struct Reader {
    name: &'static str,
    title: &'static str,
    side: Side,
    slow: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Rust,
    Python,
    Candle,
}

/// What came of opening one file with every reader.
struct Row {
    file: PathBuf,
    size: u64,
    /// For each of [`READERS`]: nanoseconds, in order, or why there are none.
    times: Vec<Result<Vec<u64>, String>>,
}

pub(super) fn run(args: &Args) -> Done {
    let files = if args.files.is_empty() { default_files()? } else { args.files.clone() };
    let mut workers = vec![(Side::Rust, rust()?), (Side::Python, Worker::start(&mut environment::script("open.py")?)?)];
    if !args.no_candle {
        workers.push((Side::Candle, candle()?));
    }
    let mut rows = Vec::new();
    for file in files {
        let row = measure(&file, args, &mut workers)?;
        println!("{}", report::line(&row));
        rows.push(row);
    }
    let versions = match workers.iter_mut().find(|(side, _)| *side == Side::Python) {
        Some((_, python)) => python.ask("versions")?,
        None => String::new(),
    };
    let text = report::text(&rows, args, &versions)?;
    println!("\n{text}");
    if args.record { report::record(&text) } else { Ok(()) }
}

fn default_files() -> Done<Vec<PathBuf>> {
    let mut files = vec![vocabulary::gemma4()?];
    let shared = root().join("../shared/data");
    for folder in ["vocab-gguf", "gguf"].map(|folder| shared.join(folder)) {
        if folder.is_dir() {
            files.extend(gguf_files(&folder)?);
        } else {
            println!("skipped: {} is absent", folder.display());
        }
    }
    Ok(files)
}

fn rust() -> Done<Worker> {
    run_command(&mut cargo(&["build", "--quiet", "--release", "--package=ggmill-bench", "--bin=open_worker"]))?;
    Worker::start(&mut crate::process::command(target()?.join("release/open_worker")))
}

fn candle() -> Done<Worker> {
    let manifest = "--manifest-path=xtask/peers/candle/Cargo.toml";
    run_command(&mut cargo(&["build", "--release", "--locked", manifest]))?;
    Worker::start(&mut cargo(&["run", "--quiet", "--release", "--locked", manifest]))
}

/// Rounds over the readers: each opens the file once per round, so that whatever else the machine does meets them all.
fn measure(file: &std::path::Path, args: &Args, workers: &mut [(Side, Worker)]) -> Done<Row> {
    let failed = |error| format!("{}: {error}", file.display());
    // Into the page cache.
    let size = std::fs::read(file).map_err(failed)?.len() as u64;
    let mut times: Vec<Result<Vec<u64>, String>> = READERS.iter().map(|_| Ok(Vec::new())).collect();
    let mut counts = None;
    // Round 0 warms up and is not counted.
    for round in 0..=args.rounds {
        for (reader, times) in READERS.iter().zip(&mut times) {
            let rounds = if reader.slow { 1..=args.slow_rounds } else { 0..=args.rounds };
            let (Ok(taken), true) = (&mut *times, rounds.contains(&round)) else { continue };
            let Some((_, worker)) = workers.iter_mut().find(|(side, _)| *side == reader.side) else {
                *times = Err("left out".to_owned());
                continue;
            };
            match worker.open(reader.name, file)? {
                Answer::Opened { nanoseconds, found } => {
                    if *counts.get_or_insert(found) != found {
                        return Err(format!("{}: {} finds {found:?}, others {counts:?}", file.display(), reader.title));
                    }
                    if round > 0 {
                        taken.push(nanoseconds);
                    }
                }
                Answer::Refused(why) => *times = Err(why),
            }
        }
    }
    for taken in times.iter_mut().flatten() {
        taken.sort_unstable();
    }
    Ok(Row { file: file.to_owned(), size, times })
}

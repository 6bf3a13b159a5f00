//! The speed of opening files, side by side: every reader in one run, on the same files, taking
//! turns.

mod report;
mod worker;

use std::path::{Path, PathBuf};

use crate::process::{Done, cargo, root, run as run_command, target};

use self::worker::{Answer, Worker};
use super::{environment, gguf_files, source};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Files to open [default: gemma-4's vocabulary, and what is in ../shared/data/vocab-gguf and
    /// gguf]
    files: Vec<PathBuf>,
    /// How many turns each reader has with each file
    #[arg(long, default_value_t = 12)]
    rounds: u32,
    /// How many gguf has, which takes half a minute for the largest
    #[arg(long, default_value_t = 1)]
    slow_rounds: u32,
    /// Do without candle-core, which takes minutes to build
    #[arg(long)]
    no_candle: bool,
    /// Write the table into crates/ggmill-bench/RESULTS.md
    #[arg(long)]
    record: bool,
}

/// The sides, as the table heads them, and which worker plays each. The first is ours and the
/// measure of the others.
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

/// The results of opening one file with every reader.
struct Row {
    file: PathBuf,
    size: u64,
    /// For each of [`READERS`]: nanoseconds, in order, or why there are none.
    times: Vec<Result<Vec<u64>, String>>,
}

pub(super) fn run(args: &Args) -> Done {
    let files = if args.files.is_empty() { default_files()? } else { args.files.clone() };
    let mut workers = vec![
        (Side::Rust, rust()?),
        (Side::Python, Worker::start(&mut environment::script("open.py")?)?),
    ];
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
    let mut files = vec![source::gemma4()?];
    let shared = root().join("../shared/data");
    for directory in ["vocab-gguf", "gguf"].map(|directory| shared.join(directory)) {
        if directory.is_dir() {
            files.extend(gguf_files(&directory)?);
        } else {
            println!("skipped: {} is absent", directory.display());
        }
    }
    Ok(files)
}

fn rust() -> Done<Worker> {
    run_command(&mut cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package=ggmill-bench",
        "--bin=open_worker",
    ]))?;
    Worker::start(&mut crate::process::command(target()?.join("release/open_worker")))
}

fn candle() -> Done<Worker> {
    let manifest = "--manifest-path=xtask/peers/candle/Cargo.toml";
    run_command(&mut cargo(&["build", "--release", "--locked", manifest]))?;
    Worker::start(&mut cargo(&["run", "--quiet", "--release", "--locked", manifest]))
}

/// How long a turn lasts, in nanoseconds, and how often the file is opened in it at least and at
/// most.
const TURN: u64 = 400_000_000;
const OPENS_PER_TURN: std::ops::RangeInclusive<u64> = 4..=200;

/// Rounds over the readers: each has its turn in each round, so that whatever else the machine does
/// meets them all.
fn measure(file: &Path, args: &Args, workers: &mut [(Side, Worker)]) -> Done<Row> {
    let failed = |error| format!("{}: {error}", file.display());
    // Into the page cache.
    let size = std::fs::read(file).map_err(failed)?.len() as u64;
    let mut times: Vec<Result<Vec<u64>, String>> = READERS.iter().map(|_| Ok(Vec::new())).collect();
    let mut counts = None;
    for round in 0..args.rounds {
        for number in order(round) {
            let (reader, times) = (&READERS[number], &mut times[number]);
            let Ok(taken) = times.as_mut() else { continue };
            let slow = reader.slow;
            if round >= if slow { args.slow_rounds } else { args.rounds } {
                continue;
            }
            let Some((_, worker)) = workers.iter_mut().find(|(side, _)| *side == reader.side)
            else {
                *times = Err("left out".to_owned());
                continue;
            };
            let shortest = taken.iter().min().copied().unwrap_or(TURN);
            let opens = if slow {
                1
            } else {
                (TURN / shortest.max(1)).clamp(*OPENS_PER_TURN.start(), *OPENS_PER_TURN.end())
            };
            match worker.open(reader.name, file, opens)? {
                Answer::Opened { found, .. } if *counts.get_or_insert(found) != found => {
                    return Err(format!(
                        "{}: {} finds {found:?}, others {counts:?}",
                        file.display(),
                        reader.title
                    ));
                }
                // The first half pays for what the reader before has left in the caches, and for a
                // processor that has to wake up.
                Answer::Opened { nanoseconds, .. } => {
                    taken.extend(&nanoseconds[nanoseconds.len() / 2..]);
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

/// The readers in another order each round, so that none is always behind the same one.
fn order(round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..READERS.len()).collect();
    order.rotate_left(round as usize % READERS.len());
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

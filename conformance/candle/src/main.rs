//! candle-core's GGUF reader as one side of `python3 conformance/run.py open`; see
//! `crates/ggmill-bench/src/bin/open_worker.rs` for what is said over the pipes.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead as _, BufReader, Write as _};

use candle_core::quantized::gguf_file::Content;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        match answer(&line?) {
            Ok(answer) => writeln!(out, "{answer}")?,
            Err(error) => {
                writeln!(out, "error: {}", error.to_string().lines().next().unwrap_or_default())?
            }
        }
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Result<String, Box<dyn Error>> {
    let [_, times, path] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else {
        return Err("expected a reader, a number and a path".into());
    };
    let mut found = (0, 0);
    let mut nanoseconds = String::new();
    for _ in 0..times.parse()? {
        let begin = now();
        found = open(path)?;
        write!(nanoseconds, "\t{}", now() - begin)?;
    }
    Ok(format!("{}\t{}{nanoseconds}", found.0, found.1))
}

/// Processor time of this thread, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Pairs and tensors. Through a buffer, which is kinder than the plain file its examples pass.
fn open(path: &str) -> Result<(usize, usize), Box<dyn Error>> {
    let content = black_box(Content::read(&mut BufReader::new(File::open(path)?))?);
    Ok((content.metadata.len(), content.tensor_infos.len()))
}

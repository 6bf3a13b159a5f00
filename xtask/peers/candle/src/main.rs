//! candle-core's GGUF reader as one side of `cargo xtask peers open`; see `crates/ggmill-bench/src/bin/open_worker.rs` for what is said over the pipes.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::time::Instant;

use candle_core::quantized::gguf_file::Content;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (_, path) = line.split_once('\t').ok_or("expected a reader and a path")?;
        match open(path) {
            Ok((nanoseconds, pairs, tensors)) => writeln!(out, "{nanoseconds}\t{pairs}\t{tensors}")?,
            Err(error) => writeln!(out, "error: {}", error.to_string().lines().next().unwrap_or_default())?,
        }
        out.flush()?;
    }
    Ok(())
}

/// Through a buffer, which is kinder than the plain file its examples pass.
fn open(path: &str) -> Result<(u128, usize, usize), Box<dyn Error>> {
    let begin = Instant::now();
    let content = black_box(Content::read(&mut BufReader::new(File::open(path)?))?);
    let counts = (content.metadata.len(), content.tensor_infos.len());
    drop(content);
    Ok((begin.elapsed().as_nanos(), counts.0, counts.1))
}

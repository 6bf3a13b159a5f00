//! One side of `cargo xtask peers open`: opens a file when told to, and says how long that took.
//!
//! Each line of standard input is a reader and a path, with a tab between them. The answer is a line of nanoseconds, pairs and tensors, so that nobody wins
//! by reading less. Every worker of the comparison speaks so, whatever its language.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::time::Instant;

use ggmill_bench::walk;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (reader, path) = line.split_once('\t').ok_or("expected a reader and a path")?;
        let begin = Instant::now();
        let (pairs, tensors) = match reader {
            "ggmill" => ggmill(Path::new(path))?,
            "ggmill-read" => ggmill_read(Path::new(path))?,
            "walk" => bare_walk(Path::new(path))?,
            other => return Err(format!("no reader {other}").into()),
        };
        writeln!(out, "{}\t{pairs}\t{tensors}", begin.elapsed().as_nanos())?;
        out.flush()?;
    }
    Ok(())
}

#[expect(unsafe_code, reason = "the files compared are nobody's to change meanwhile")]
fn ggmill(path: &Path) -> Result<(usize, usize), Box<dyn Error>> {
    // SAFETY: nothing writes to the files of a comparison while it runs.
    let model = black_box(unsafe { ggmill_io::map(path)? });
    Ok((model.metadata().len(), model.tensors().len()))
}

/// The safe way: the header is read, not mapped.
fn ggmill_read(path: &Path) -> Result<(usize, usize), Box<dyn Error>> {
    let model = black_box(ggmill_io::open(path)?);
    Ok((model.metadata().len(), model.tensors().len()))
}

#[expect(unsafe_code, reason = "as for `ggmill`, and the files are well formed")]
fn bare_walk(path: &Path) -> Result<(usize, usize), Box<dyn Error>> {
    // SAFETY: nothing writes to the files of a comparison while it runs.
    let mapping = unsafe { ggmill_io::map_file(path)? };
    // SAFETY: the comparison opens each file with a reader that checks before it is walked.
    let walked = black_box(unsafe { walk(mapping.as_ref()) });
    Ok((usize::try_from(walked.pairs)?, usize::try_from(walked.tensors)?))
}

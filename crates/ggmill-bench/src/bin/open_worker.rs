//! One side of `python3 conformance/run.py open`: opens a file when told to, and says how long that took.
//!
//! Each line of standard input is a reader, how often to open, and a path, with tabs between them.
//! The answer is a line of pairs and tensors found, so that nobody wins by reading less, and the
//! nanoseconds of each time. Every worker of the comparison speaks so, whatever its language.
//!
//! The clock is that of the thread, the kernel's work for it included: the files are in memory, so
//! nobody waits for anything but a processor.

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;

use ggmill_bench::walk;
use rustix::time::{ClockId, clock_gettime};

type Counts = Result<(usize, usize), Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        match answer(&line?) {
            Ok(answer) => writeln!(out, "{answer}")?,
            Err(error) => writeln!(out, "error: {error}")?,
        }
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Result<String, Box<dyn Error>> {
    let [reader, times, path] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else {
        return Err("expected a reader, a number and a path".into());
    };
    let open = match reader {
        "ggmill" => ggmill,
        "ggmill-read" => ggmill_read,
        "walk" => bare_walk,
        other => return Err(format!("no reader {other}").into()),
    };
    let mut found = (0, 0);
    let mut nanoseconds = String::new();
    for _ in 0..times.parse()? {
        let begin = now();
        found = open(Path::new(path))?;
        write!(nanoseconds, "\t{}", now() - begin)?;
    }
    Ok(format!("{}\t{}{nanoseconds}", found.0, found.1))
}

/// Processor time of this thread, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[expect(unsafe_code, reason = "the files compared are nobody's to change meanwhile")]
fn ggmill(path: &Path) -> Counts {
    // SAFETY: nothing writes to the files of a comparison while it runs.
    let model = black_box(unsafe { ggmill_io::map(path)? });
    Ok((model.metadata().len(), model.tensors().len()))
}

/// The safe way: the header is read, not mapped.
fn ggmill_read(path: &Path) -> Counts {
    let model = black_box(ggmill_io::open_alone(path)?);
    Ok((model.metadata().len(), model.tensors().len()))
}

#[expect(unsafe_code, reason = "as for `ggmill`, and the files are well formed")]
fn bare_walk(path: &Path) -> Counts {
    // SAFETY: nothing writes to the files of a comparison while it runs.
    let mapping = unsafe { ggmill_io::map_file(path)? };
    if mapping.as_ref().get(4) == Some(&1) {
        return Err("version 1 is not walked".into());
    }
    // SAFETY: the comparison opens each file with a reader that checks before it is walked.
    let walked = black_box(unsafe { walk(mapping.as_ref()) });
    Ok((usize::try_from(walked.pairs)?, usize::try_from(walked.tensors)?))
}

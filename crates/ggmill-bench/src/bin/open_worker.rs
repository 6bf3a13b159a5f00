//! A worker of `python3 conformance/run.py open`: opens files on request, and measures the time.
//!
//! A request is a line of standard input with three fields, separated by tabs: the reader, the number of
//! repetitions, and the path. The answer is a line with the number of metadata pairs, the number of
//! tensors, and the nanoseconds of each repetition. The counts show that all readers read the same. The
//! workers in other languages have the same protocol.
//!
//! The time is the CPU time of the thread, including the time in the kernel; the files are in the page
//! cache, so no reader waits for a disk.

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;

use ggmill_bench::{is_walkable, walk};
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
    let path = Path::new(path);
    let open: Box<dyn Fn() -> Counts> = match reader {
        "ggmill" => Box::new(|| ggmill(path)),
        "ggmill-read" => Box::new(|| ggmill_read(path)),
        "walk" => {
            let file = Walkable::check(path)?;
            Box::new(move || file.walk())
        }
        other => return Err(format!("no reader {other}").into()),
    };
    let mut found = (0, 0);
    let mut nanoseconds = String::new();
    for _ in 0..times.parse()? {
        let begin = now();
        found = open()?;
        write!(nanoseconds, "\t{}", now() - begin)?;
    }
    Ok(format!("{}\t{}{nanoseconds}", found.0, found.1))
}

/// Returns the CPU time of this thread in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[expect(unsafe_code, reason = "nothing changes the compared files during a comparison")]
fn ggmill(path: &Path) -> Counts {
    // SAFETY: nothing writes to the files of a comparison while it runs.
    let model = black_box(unsafe { ggmill_io::map(path)? });
    Ok((model.metadata().len(), model.tensors().len()))
}

/// Opens a file by reading its header, without a memory map.
fn ggmill_read(path: &Path) -> Counts {
    let model = black_box(ggmill_io::open_alone(path)?);
    Ok((model.metadata().len(), model.tensors().len()))
}

/// A file that `walk` can read.
struct Walkable<'a>(&'a Path);

impl<'a> Walkable<'a> {
    /// Parses the header once, before the time is measured: `walk` checks nothing.
    fn check(path: &'a Path) -> Result<Self, Box<dyn Error>> {
        let model = ggmill_io::open_alone(path)?;
        if !is_walkable(model.header()) {
            return Err("only little-endian files of version 2 or 3 without nested arrays are \
                        walked"
                .into());
        }
        Ok(Self(path))
    }

    #[expect(unsafe_code, reason = "the lower bound checks nothing")]
    fn walk(&self) -> Counts {
        // SAFETY: nothing writes to the files of a comparison while it runs.
        let mapping = unsafe { ggmill_io::map_file(self.0)? };
        // SAFETY: `check` parsed the header of this file, which does not change, and it is walkable.
        let walked = black_box(unsafe { walk(mapping.as_ref()) });
        Ok((usize::try_from(walked.pairs)?, usize::try_from(walked.tensors)?))
    }
}

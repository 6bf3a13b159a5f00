//! Text that a user hands over: rules, values, descriptions.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ggmill_core::ByteSize;
use ggmill_io::RandomAccess;

use crate::outcome::Failure;
use crate::paths::shown;

/// The text of a file of at most `limit` bytes, without the byte order mark that some editors put
/// first. `-` is standard input, and a pipe (as a shell makes of `<(…)`) is read to its end.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, Failure> {
    let bytes = read_bytes(path, limit)?;
    let mut text = String::from_utf8(bytes).map_err(|error| {
        Failure::new(format_args!(
            "{}: not valid UTF-8 from byte {}",
            shown(path),
            error.utf8_error().valid_up_to()
        ))
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// The bytes of a file of at most `limit` bytes, of standard input (`-`), or of a pipe.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let is_input = path.as_os_str() == "-";
    if is_input {
        read_stream(io::stdin().lock(), Path::new("standard input"), limit)
    } else if is_pipe(path) {
        let refused = |error: io::Error| Failure::new(format_args!("{}: {error}", shown(path)));
        read_stream(File::open(path).map_err(refused)?, path, limit)
    } else {
        RandomAccess::open(path).and_then(|file| file.read_whole(limit)).map_err(Failure::new)
    }
}

/// Whether a path is standard input (`-`) or leads to a pipe.
pub(crate) fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-" || is_pipe(path)
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

/// Everything that comes, if that is no more than `limit` bytes.
fn read_stream(input: impl Read, path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let refused =
        |why: &dyn std::fmt::Display| Failure::new(format_args!("{}: {why}", shown(path)));
    let mut bytes = Vec::new();
    input.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| refused(&error))?;
    if bytes.len() as u64 > limit {
        return Err(refused(&format_args!("more than {}", ByteSize::from(limit))));
    }
    Ok(bytes)
}

//! `--count` over files and directories.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_tokenizer::{EncodeOptions, Tokenizer};

use super::MAX_TEXT;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::progress::Bar;
use crate::text_file::read_bytes;

/// The number of tokens of each file, and of all if there are several.
pub(super) fn print(
    tokenizer: &Tokenizer,
    options: EncodeOptions,
    paths: &[PathBuf],
    console: Console,
) -> Result<Status, Failure> {
    let mut files = Vec::new();
    for path in paths {
        find(path, &mut files)?;
    }
    let total: u64 = files.iter().map(|(_, length)| length).sum();
    let alone = matches!(paths, [path] if !path.is_dir());
    let mut bar = Bar::new(console);
    let mut out = console.text();
    let (mut done, mut sum) = (0u64, 0u64);
    for (path, length) in &files {
        bar.update(done, total, &path.to_string_lossy());
        let text = read_bytes(path, MAX_TEXT)?;
        let count = tokenizer
            .count(&text, &options)
            .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?;
        sum += count as u64;
        done += length;
        if alone {
            writeln!(out, "{count}")?;
        } else {
            writeln!(out, "{count:>12}  {}", shown(path))?;
        }
    }
    if !alone {
        writeln!(out, "{sum:>12}  all {} files", files.len())?;
    }
    drop(bar);
    out.flush()?;
    Ok(Status::Fine)
}

/// The files at a path and their lengths, in the order of their names. Links in a directory are
/// not followed.
fn find(path: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<(), Failure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::new(format_args!("{}: {error}", shown(path)))
    };
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.as_os_str() == "-" || !path.is_dir() {
            let length = std::fs::metadata(&path).map_or(0, |found| found.len());
            files.push((path, length));
            continue;
        }
        let entries = std::fs::read_dir(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = entries.map_err(|error| failed(&path, &error))?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries.into_iter().rev() {
            let kind = entry.file_type().map_err(|error| failed(&entry.path(), &error))?;
            if kind.is_file() || kind.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

//! `--count` over files and directories.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use ggmill_tokenizer::{EncodeOptions, Tokenizer};

use super::MAX_TEXT;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::{shown, text_of};
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
    let threads = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut bar = Bar::new(console);
    let mut out = console.text();
    let (mut done, mut sum) = (0u64, 0u64);
    let mut files_left = &*files;
    while !files_left.is_empty() {
        let (some, rest) = files_left.split_at(together(files_left));
        files_left = rest;
        let texts: Vec<Vec<u8>> = some
            .iter()
            .map(|(path, _)| read_bytes(path, MAX_TEXT))
            .collect::<Result<_, Failure>>()?;
        let counts = tokenizer.count_batch(&texts, &options, threads).or_else(|_| {
            // Which of them it is about.
            let count = |(text, (path, _)): (&Vec<u8>, &(PathBuf, u64))| {
                let failed = |error| Failure::new(format_args!("{}: {error}", shown(path)));
                tokenizer.count(text, &options).map_err(failed)
            };
            texts.iter().zip(some).map(count).collect::<Result<Vec<usize>, Failure>>()
        })?;
        for (count, (path, length)) in counts.iter().zip(some) {
            sum += *count as u64;
            done += length;
            if alone {
                writeln!(out, "{count}")?;
            } else {
                writeln!(out, "{count:>12}  {}", shown(path))?;
            }
        }
        bar.update(done, total, &some.last().map_or_else(String::new, |(path, _)| text_of(path)));
    }
    if !alone {
        writeln!(out, "{sum:>12}  all {} files", files.len())?;
    }
    drop(bar);
    out.flush()?;
    Ok(Status::Fine)
}

/// How many of the files are read and counted at once: up to some size, and at least one.
fn together(files: &[(PathBuf, u64)]) -> usize {
    const MOST: u64 = 32 << 20;
    let mut sum = 0u64;
    let fits = files.iter().take_while(|(_, length)| {
        sum = sum.saturating_add(*length);
        sum <= MOST
    });
    fits.count().max(1)
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

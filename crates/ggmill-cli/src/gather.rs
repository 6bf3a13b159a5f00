//! Which files are read, and which of them are one model.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::outcome::Failure;
use crate::paths::shown;
use crate::remote;

/// Directories within directories that are looked into.
const DEPTH: usize = 16;

/// A model's files: one, or all shards of a set that exist, in the order of their numbers.
pub(crate) type Files = Vec<PathBuf>;

/// The models that the paths name: a file, any shard of a set, or a directory with either. A set is
/// one model, however many of its shards are named.
pub(crate) fn gather(paths: &[PathBuf], failures: &mut Vec<Failure>) -> Vec<Files> {
    models(gather_files(paths, &is_gguf, ".gguf files", failures))
}

/// The files that the paths name, and those in directories that are `wanted`, which are called
/// `what` where a directory has none.
pub(crate) fn gather_files(
    paths: &[PathBuf],
    wanted: &dyn Fn(&Path) -> bool,
    what: &str,
    failures: &mut Vec<Failure>,
) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        let (before, mut unreadable) = (files.len(), Vec::new());
        walk(path, wanted, &mut files, &mut unreadable);
        if files.len() == before && unreadable.is_empty() {
            failures.push(Failure::new(format_args!("{}: no {what} found", shown(path))));
        }
        let failed = unreadable.into_iter();
        failures.extend(
            failed.map(|(path, error)| Failure::new(format_args!("{}: {error}", shown(&path)))),
        );
    }
    files
}

/// Whether a file has the ending of GGUF files.
pub(crate) fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// The models that files are, each set of shards once.
pub(crate) fn models(files: Vec<PathBuf>) -> Vec<Files> {
    let mut models: Vec<Files> = Vec::new();
    let mut shards = std::collections::HashSet::new();
    for path in files {
        let set = with_siblings(&path);
        // Another shard of its set came before.
        if set.len() > 1 && !shards.insert(set[0].clone()) {
            continue;
        }
        models.push(set);
    }
    models
}

/// A file with the shards of its set: of a directory those that exist, of a server all, which are
/// asked for whether they are there or not.
fn with_siblings(path: &Path) -> Files {
    remote::siblings(path).unwrap_or_else(|| ggmill_io::sibling_shards(path))
}

/// The file, or the wanted files of a directory and those in it, in order; and the directories that
/// cannot be read. A link to a directory is not followed: it could lead in a circle.
pub(crate) fn walk(
    path: &Path,
    wanted: &dyn Fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
    unreadable: &mut Vec<(PathBuf, io::Error)>,
) {
    if path == OsStr::new("-") || !path.is_dir() {
        files.push(path.to_owned());
        return;
    }
    if let Err(error) = walk_directory(path, DEPTH, wanted, files, unreadable) {
        unreadable.push((path.to_owned(), error));
    }
}

/// The wanted files of a directory. Fails when it cannot be read itself.
fn walk_directory(
    path: &Path,
    depth: usize,
    wanted: &dyn Fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
    unreadable: &mut Vec<(PathBuf, io::Error)>,
) -> io::Result<()> {
    let mut entries = std::fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_directory = entry.file_type()?.is_dir();
        if is_directory && depth > 0 {
            if let Err(error) = walk_directory(&path, depth - 1, wanted, files, unreadable) {
                unreadable.push((path, error));
            }
        } else if !is_directory && wanted(&path) {
            files.push(path);
        }
    }
    Ok(())
}

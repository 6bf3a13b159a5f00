//! Which files paths name, and which of them are one model.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Kind;
use crate::{Error, Hint, Result};

/// How many levels of directories are searched.
const MAX_DEPTH: usize = 16;

/// Returns the models that paths name, each as its files: one, or all shards of a set that exist, in
/// order. A directory is searched for `.gguf` files. Several shards of a set are one model. The
/// errors are about paths without any.
pub fn find_models(paths: &[PathBuf]) -> (Vec<Vec<PathBuf>>, Vec<Error>) {
    let (files, errors) = find_files(paths, &is_gguf_name, ".gguf files");
    (group_shards(files), errors)
}

/// Returns the files that paths name, and the `wanted` ones in directories, which errors call `what`.
pub fn find_files(
    paths: &[PathBuf],
    wanted: &dyn Fn(&Path) -> bool,
    what: &str,
) -> (Vec<PathBuf>, Vec<Error>) {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        let (before, mut unreadable) = (files.len(), Vec::new());
        walk(path, wanted, &mut files, &mut unreadable);
        if files.len() == before && unreadable.is_empty() {
            errors.push(none_found(what, path));
        }
        errors.extend(unreadable.into_iter().map(|(path, error)| Error::from(error).at(&path)));
    }
    (files, errors)
}

pub(crate) fn none_found(what: &str, path: &Path) -> Error {
    Error::new(Kind::NotFound, "no_files", format_args!("no {what} found")).at(path)
}

/// Returns `true` for a name that ends in `.gguf`.
pub fn is_gguf_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// Returns the models that files are, each as its files; every set of shards once.
pub fn group_shards(files: impl IntoIterator<Item = PathBuf>) -> Vec<Vec<PathBuf>> {
    let mut models = Vec::new();
    let mut known = HashSet::new();
    for path in files {
        let set = sibling_shards(&path);
        if set.len() > 1 && !known.insert(set[0].clone()) {
            continue;
        }
        models.push(set);
    }
    models
}

/// Returns a file with the shards of its set: those that exist in the directory. On a server it is
/// unknown which exist, so all are returned.
pub fn sibling_shards(path: &Path) -> Vec<PathBuf> {
    remote_siblings(path).unwrap_or_else(|| ggmill_io::sibling_shards(path))
}

#[cfg(feature = "remote")]
fn remote_siblings(path: &Path) -> Option<Vec<PathBuf>> {
    let location = location(path)?;
    let set = location.siblings()?.map(|shard| shard.to_address().into());
    Some(set.collect())
}

#[cfg(not(feature = "remote"))]
fn remote_siblings(_: &Path) -> Option<Vec<PathBuf>> {
    None
}

/// Returns the last component of a path or an address.
pub(crate) fn file_name(path: &Path) -> String {
    #[cfg(feature = "remote")]
    if let Some(location) = location(path) {
        return location.file_name().unwrap_or_default().to_owned();
    }
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(feature = "remote")]
fn location(path: &Path) -> Option<ggmill_remote::Location> {
    if !crate::paths::is_remote(path) {
        return None;
    }
    ggmill_remote::Location::parse(path.to_str()?).ok()?
}

/// Adds the file, or the wanted files in a directory and its subdirectories, in order, and the
/// directories that cannot be read. A link to a directory is not followed, because it can lead in a
/// circle.
pub fn walk(
    path: &Path,
    wanted: &dyn Fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
    unreadable: &mut Vec<(PathBuf, io::Error)>,
) {
    if path == OsStr::new("-") || !path.is_dir() {
        files.push(path.to_owned());
        return;
    }
    if let Err(error) = walk_directory(path, MAX_DEPTH, wanted, files, unreadable) {
        unreadable.push((path.to_owned(), error));
    }
}

/// Adds the wanted files of a directory. Fails if the directory itself cannot be read.
fn walk_directory(
    path: &Path,
    depth: usize,
    wanted: &dyn Fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
    unreadable: &mut Vec<(PathBuf, io::Error)>,
) -> io::Result<()> {
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
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

/// Refuses a path that does not exist, before an error about what it is not.
pub(crate) fn refuse_missing(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let error = Error::new(Kind::NotFound, "io", "no such file or directory").at(path);
    Err(error.with_hint(repository_hint(path)))
}

/// The repository that was probably meant by a path of this form.
fn repository_hint(path: &Path) -> Option<Hint> {
    let text = path.to_string_lossy();
    let id = text.trim_end_matches('/');
    let is_id = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match id.split('/').collect::<Vec<_>>()[..] {
        [owner, name] if is_id(owner) && is_id(name) && !Path::new(owner).exists() => {
            Some(Hint::Repository(id.to_owned()))
        }
        _ => None,
    }
}

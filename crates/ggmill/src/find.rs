//! Finding files in directories, and the shards that belong to one model.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Kind;
use crate::{Error, Hint, Result};

/// The maximum depth of subdirectories that are searched.
const MAX_DEPTH: usize = 16;

/// Finds models: each as its files, which are one file, or the existing shards of a set in order. A
/// directory is searched for `.gguf` files. Returns an error for each path without files, and for each
/// directory that cannot be read.
pub fn find_models(paths: &[PathBuf]) -> (Vec<Vec<PathBuf>>, Vec<Error>) {
    let (files, errors) = find_files(paths, &is_gguf_name, ".gguf files");
    (group_shards(files), errors)
}

/// Finds files: the paths themselves, and in directories the files that `wanted` accepts. Returns an
/// error for each path without files, which calls them `what`, and for each directory that cannot be
/// read.
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

/// Groups files into models: each file with its sibling shards, and every set once.
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

/// Returns the shards of the set that a file belongs to, in order, or the file itself. Local shards
/// exist; for an address, all shards are returned, because it is unknown which exist.
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

/// Adds a path to `files`, or for a directory the files in it and its subdirectories that `wanted`
/// accepts, in order of their names. Adds directories that cannot be read, and those at a depth that is
/// not searched, to `unreadable`. Symbolic
/// links to directories are not followed, because they can form a cycle.
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

/// Adds the files of a directory that `wanted` accepts. Fails if the directory itself cannot be read.
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
        if is_directory && depth == 0 {
            let message = format!("not searched: it is more than {MAX_DEPTH} directories deep");
            unreadable.push((path, io::Error::other(message)));
        } else if is_directory {
            if let Err(error) = walk_directory(&path, depth - 1, wanted, files, unreadable) {
                unreadable.push((path, error));
            }
        } else if wanted(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Fails for a path that does not exist, so that no later error says what the path is not.
pub(crate) fn refuse_missing(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let error = Error::new(Kind::NotFound, "io", "no such file or directory").at(path);
    Err(error.with_hint(repository_hint(path)))
}

/// Returns a hint for a path of the form `OWNER/NAME`, which is probably a repository.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_are_not_searched_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let deepest = |depth: usize| {
            let names = std::iter::repeat_n("d", depth);
            names.fold(directory.path().to_owned(), |path, name| path.join(name))
        };
        fs::create_dir_all(deepest(MAX_DEPTH + 1)).unwrap();
        for depth in [0, MAX_DEPTH, MAX_DEPTH + 1] {
            fs::write(deepest(depth).join("m.gguf"), "").unwrap();
        }
        let (files, errors) = find_files(&[directory.path().to_owned()], &is_gguf_name, ".gguf");
        assert_eq!(files, [MAX_DEPTH, 0].map(|depth| deepest(depth).join("m.gguf")));
        let paths: Vec<_> = errors.iter().map(|error| error.path().map(Path::to_owned)).collect();
        assert_eq!(paths, [Some(deepest(MAX_DEPTH + 1))]);
    }
}

//! Which files paths and addresses name, and which of them are one model.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Kind;
use crate::{Error, Hint, Result};

/// How deep directories are searched.
const MAX_DEPTH: usize = 16;

/// The files that paths name, and the errors of those that cannot be read.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundFiles {
    /// The files, in the order of the paths, those of a directory in the order of their names.
    pub files: Vec<PathBuf>,
    /// Directories that cannot be read, and paths that name no file.
    pub errors: Vec<Error>,
}

/// Finds the files that paths name: each path that is not a directory, whether it exists or not, and
/// the files in directories for which `wanted` returns `true`. An error about a directory that has none
/// calls them `what`. Links to directories are not followed.
pub fn find_files(paths: &[PathBuf], what: &str, wanted: &dyn Fn(&Path) -> bool) -> FoundFiles {
    let mut found = FoundFiles::default();
    for path in paths {
        let (before, mut unreadable) = (found.files.len(), Vec::new());
        walk(path, wanted, &mut found.files, &mut unreadable);
        if found.files.len() == before && unreadable.is_empty() {
            found.errors.push(none_found(what, path));
        }
        let failed = unreadable.into_iter();
        found.errors.extend(failed.map(|(path, error)| Error::from(error).at(&path)));
    }
    found
}

pub(crate) fn none_found(what: &str, path: &Path) -> Error {
    Error::new(Kind::NotFound, "no_files", format_args!("no {what} found")).at(path)
}

/// Returns `true` if the name of a file ends in `.gguf`, in upper or lower case.
pub fn has_gguf_extension(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// Groups files by model. Each model is its only file, or the shards of a set in order: on this machine
/// those that exist, of a server all of them. A set is one model, even if several of its shards are
/// listed.
pub fn group_shards(files: Vec<PathBuf>) -> Vec<Vec<PathBuf>> {
    let mut models: Vec<Vec<PathBuf>> = Vec::new();
    let mut sets = std::collections::HashSet::new();
    for path in files {
        let set = remote_siblings(&path).unwrap_or_else(|| ggmill_io::sibling_shards(&path));
        if set.len() > 1 && !sets.insert(set[0].clone()) {
            continue;
        }
        models.push(set);
    }
    models
}

/// Returns the addresses of all shards of a set; `None` for a path, and for a file that is not a shard.
#[cfg(feature = "remote")]
fn remote_siblings(path: &Path) -> Option<Vec<PathBuf>> {
    if !crate::paths::is_remote(path) {
        return None;
    }
    let location = ggmill_remote::Location::parse(path.to_str()?).ok()??;
    let set = location.siblings()?.map(|shard| shard.to_address().into());
    Some(set.collect())
}

#[cfg(not(feature = "remote"))]
fn remote_siblings(_: &Path) -> Option<Vec<PathBuf>> {
    None
}

/// Finds the file at a path, or the wanted files of a directory, in order; and the directories that
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
    if let Err(error) = walk_directory(path, MAX_DEPTH, wanted, files, unreadable) {
        unreadable.push((path.to_owned(), error));
    }
}

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

//! Which files are read, and which of them are one model.

use std::path::{Path, PathBuf};

pub(crate) use ggmill::has_gguf_extension as is_gguf;
use ggmill::{find_files, group_shards};

use crate::outcome::Failure;

/// A model's files: one, or all shards of a set that exist, in the order of their numbers.
pub(crate) type Files = Vec<PathBuf>;

/// Returns the models that the paths name: files, any shards of sets, or directories of them. A set is
/// one model, even if several of its shards are named.
pub(crate) fn gather(paths: &[PathBuf], failures: &mut Vec<Failure>) -> Vec<Files> {
    models(gather_files(paths, &is_gguf, ".gguf files", failures))
}

/// Returns the files that the paths name, and the `wanted` files in directories. A failure about a
/// directory without any calls them `what`.
pub(crate) fn gather_files(
    paths: &[PathBuf],
    wanted: &dyn Fn(&Path) -> bool,
    what: &str,
    failures: &mut Vec<Failure>,
) -> Vec<PathBuf> {
    let found = find_files(paths, what, wanted);
    failures.extend(found.errors.into_iter().map(Failure::from));
    found.files
}

/// Groups files by model, each set of shards once.
pub(crate) fn models(files: Vec<PathBuf>) -> Vec<Files> {
    group_shards(files)
}

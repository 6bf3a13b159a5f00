//! Which files are read, and which of them are one model.

use std::path::{Path, PathBuf};

pub(crate) use ggmill::has_gguf_extension as is_gguf;
use ggmill::{find_files, group_shards};

use crate::outcome::Failure;

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
    let found = find_files(paths, what, wanted);
    failures.extend(found.errors.into_iter().map(Failure::from));
    found.files
}

/// The models that files are, each set of shards once.
pub(crate) fn models(files: Vec<PathBuf>) -> Vec<Files> {
    group_shards(files)
}

//! Which files paths name, and which of them are one model.

use std::path::{Path, PathBuf};

use crate::outcome::Failure;

pub(crate) use ggmill::{group_shards as models, is_gguf_name as is_gguf};

/// A model's files: one, or all shards of a set that exist, in order.
pub(crate) type Files = Vec<PathBuf>;

/// The models that paths name: see [`ggmill::find_models`].
pub(crate) fn gather(paths: &[PathBuf], failures: &mut Vec<Failure>) -> Vec<Files> {
    let (models, errors) = ggmill::find_models(paths);
    failures.extend(errors.into_iter().map(Failure::from));
    models
}

/// The files that paths name: see [`ggmill::find_files`].
pub(crate) fn gather_files(
    paths: &[PathBuf],
    wanted: &dyn Fn(&Path) -> bool,
    what: &str,
    failures: &mut Vec<Failure>,
) -> Vec<PathBuf> {
    let (files, errors) = ggmill::find_files(paths, wanted, what);
    failures.extend(errors.into_iter().map(Failure::from));
    files
}

//! A build without the feature `remote`: it says so where another place than a path is named.

use std::path::Path;

use ggmill_core::{Model, ReadAt};
use ggmill_io::{Directory, NotWhole};

use crate::outcome::Failure;
use crate::paths::shown;

pub(crate) fn without_cache() {}

pub(crate) fn is_remote(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("://")) && !path.exists()
}

fn refused<T>(path: &Path) -> Option<Result<T, Failure>> {
    is_remote(path).then(|| {
        let message = format_args!("{}: this program was built without `remote`", shown(path));
        Err(Failure::new(message)
            .with_hint(Some("download the file, and name the copy".to_owned())))
    })
}

pub(crate) fn open(path: &Path, _: bool) -> Option<Result<Model, Failure>> {
    refused(path)
}

pub(crate) fn open_what_is_there(
    path: &Path,
    _: bool,
) -> Option<Result<(Model, Option<Failure>), Failure>> {
    refused(path)
}

pub(crate) fn salvage<T>(
    path: &Path,
    _: impl FnOnce(&ggmill_core::Error, &[u8]) -> T,
) -> Option<Result<Result<Model, T>, Failure>> {
    refused(path)
}

#[expect(clippy::type_complexity, reason = "as in the module that this stands for")]
pub(crate) fn list(path: &Path) -> Option<Result<(Vec<(String, u64)>, Option<u64>), Failure>> {
    refused(path)
}

pub(crate) fn not_whole(_: &Path) -> Option<Result<(), NotWhole>> {
    None
}

pub(crate) fn directory(path: &Path) -> Option<Result<(Directory, Option<String>), Failure>> {
    refused(path)
}

pub(crate) fn open_bytes(path: &Path) -> Option<Result<Box<dyn ReadAt>, Failure>> {
    refused(path)
}

//! Descriptions of architectures that a user gives.

use std::path::PathBuf;

use ggmill_arch::{Architecture, Catalogue};

use crate::outcome::Failure;
use crate::paths::shown;
use crate::text_file::read_text;

/// The architectures to know: the built-in ones, and those of files a user gives.
pub(crate) fn catalogue(files: &[PathBuf]) -> Result<Catalogue, Failure> {
    Ok(described(files)?.into_iter().fold(Catalogue::new(), Catalogue::with))
}

/// What files of `--arch-file` describe, in their order.
pub(crate) fn described(files: &[PathBuf]) -> Result<Vec<Architecture>, Failure> {
    let read = |path: &PathBuf| {
        let text = read_text(path, Architecture::MAX_LEN as u64)?;
        Architecture::parse(&text)
            .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))
    };
    files.iter().map(read).collect()
}

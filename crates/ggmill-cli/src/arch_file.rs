//! Descriptions of architectures that a user gives.

use std::path::PathBuf;

use ggmill_arch::{Architecture, Catalogue};
use ggmill_convert::read_descriptions;

use crate::outcome::Failure;
use crate::paths::shown;
use crate::text_file::{is_stream, read_text};

/// What to do about a checkpoint of an unknown class.
pub(crate) const ARCH_FILE_HINT: &str = "--arch-file adds a description of your own; \
                                         `ggmill explain ARCHITECTURE --description` prints one to \
                                         start from";

/// The architectures to know: the built-in ones, and those of files a user gives.
pub(crate) fn catalogue(files: &[PathBuf]) -> Result<Catalogue, Failure> {
    Ok(described(files)?.into_iter().fold(Catalogue::new(), Catalogue::with))
}

/// The descriptions that `--arch-file` names, in order: files, directories of them, standard input
/// (`-`) and pipes.
pub(crate) fn described(paths: &[PathBuf]) -> Result<Vec<Architecture>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if is_stream(path) {
            let text = read_text(path, Architecture::MAX_LEN as u64)?;
            let described = Architecture::parse(&text)
                .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?;
            found.push(described);
        } else {
            found.extend(read_descriptions(&[path]).map_err(Failure::new)?);
        }
    }
    Ok(found)
}

//! Descriptions of architectures that a user gives.

use std::fs;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue, DescriptionFiles};

use crate::outcome::Failure;
use crate::paths::shown;
use crate::text_file::read_text;

/// What to do about a checkpoint of an unknown class.
pub(crate) const ARCH_FILE_HINT: &str = "--arch-file adds a description of your own; \
                                         docs/formats/architecture.md says how to write one";

/// The architectures to know: the built-in ones, and those of files a user gives.
pub(crate) fn catalogue(files: &[PathBuf]) -> Result<Catalogue, Failure> {
    Ok(described(files)?.into_iter().fold(Catalogue::new(), Catalogue::with))
}

/// The descriptions that `--arch-file` names, in their order: files, or directories of them.
pub(crate) fn described(paths: &[PathBuf]) -> Result<Vec<Architecture>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(of_directory(path)?);
            continue;
        }
        let text = read_text(path, Architecture::MAX_LEN as u64)?;
        found.push(
            Architecture::parse(&text)
                .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?,
        );
    }
    Ok(found)
}

fn of_directory(directory: &Path) -> Result<Vec<Architecture>, Failure> {
    let mut files = DescriptionFiles::new();
    for part in DescriptionFiles::DIRECTORIES {
        let inner = if part.is_empty() { directory.to_owned() } else { directory.join(part) };
        if !inner.is_dir() {
            continue;
        }
        let fault = |error| Failure::new(format_args!("{}: {error}", shown(&inner)));
        for entry in fs::read_dir(&inner).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let place = if part.is_empty() { name } else { format!("{part}/{name}") };
            if DescriptionFiles::takes(&place) {
                files.add(place, read_text(&path, Architecture::MAX_LEN as u64)?);
            }
        }
    }
    files.parse().map_err(|(place, error)| {
        Failure::new(format_args!("{}: {error}", shown(&directory.join(place))))
    })
}

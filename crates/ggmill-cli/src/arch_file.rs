//! Descriptions of architectures that a user gives.

use std::fs;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue};

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

/// The descriptions that `--arch-file` names, in their order: files, or directories of them, which
/// may have a directory of included parts beside them.
pub(crate) fn described(paths: &[PathBuf]) -> Result<Vec<Architecture>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(read(path, &[])?);
            continue;
        }
        let parts = texts(&path.join("parts"))?;
        let parts: Vec<(&str, &str)> =
            parts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let inner = ["architectures", "projectors"].map(|name| path.join(name));
        let mut directories: Vec<&Path> =
            inner.iter().filter(|inner| inner.is_dir()).map(PathBuf::as_path).collect();
        if directories.is_empty() {
            directories.push(path);
        }
        for directory in directories {
            for file in toml_files(directory)? {
                found.push(read(&file, &parts)?);
            }
        }
    }
    Ok(found)
}

fn read(path: &Path, parts: &[(&str, &str)]) -> Result<Architecture, Failure> {
    let text = read_text(path, Architecture::MAX_LEN as u64)?;
    Architecture::parse_with_parts(&text, parts)
        .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))
}

/// The names and texts of the parts in a directory; none where there is no such directory.
fn texts(directory: &Path) -> Result<Vec<(String, String)>, Failure> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let part = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, read_text(&path, Architecture::MAX_LEN as u64)?))
    };
    toml_files(directory)?.into_iter().map(part).collect()
}

/// The TOML files of a directory, by name.
fn toml_files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fault = |error| Failure::new(format_args!("{}: {error}", shown(directory)));
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

//! Reading side files: rules, plans, architecture descriptions, metadata patches.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue};
use ggmill_convert::read_descriptions;
use ggmill_core::ByteSize;
use ggmill_edit::{Edit, EditSyntaxError};
use ggmill_io::RandomAccess;

use crate::{Error, Hint, Result};

/// Reads a text of at most `limit` bytes, without the byte order mark that some editors add. `-` is
/// standard input, and a named pipe, such as `<(…)` in a shell, is read to its end.
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> Result<String> {
    let path = path.as_ref();
    let bytes = read_bytes(path, limit)?;
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        Error::malformed(format_args!("not valid UTF-8 from byte {valid}")).at(path)
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// Reads a file of at most `limit` bytes. `-` is standard input, and a named pipe is read to its end.
pub fn read_bytes(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
    let path = path.as_ref();
    if path.as_os_str() == "-" {
        read_stream(io::stdin().lock(), Path::new("standard input"), limit)
    } else if is_pipe(path) {
        let file = File::open(path).map_err(|error| Error::from(error).at(path))?;
        read_stream(file, path, limit)
    } else {
        Ok(RandomAccess::open(path).and_then(|file| file.read_whole(limit))?)
    }
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

fn read_stream(input: impl Read, path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Error::from(error).at(path))?;
    if bytes.len() as u64 > limit {
        return Err(Error::limit(format_args!("more than {}", ByteSize::from(limit))).at(path));
    }
    Ok(bytes)
}

/// Reads architecture descriptions, in order, from files, directories, standard input (`-`) and pipes.
pub fn read_architectures(paths: &[PathBuf]) -> Result<Vec<Architecture>> {
    let mut found = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" || is_pipe(path) {
            let text = read_text(path, Architecture::MAX_LEN as u64)?;
            found.push(Architecture::parse(&text).map_err(|error| Error::from(error).at(path))?);
        } else {
            found.extend(read_descriptions(&[path])?);
        }
    }
    Ok(found)
}

/// Returns the built-in architecture descriptions, and those in these files.
pub fn catalogue(paths: &[PathBuf]) -> Result<Catalogue> {
    Ok(read_architectures(paths)?.into_iter().fold(Catalogue::new(), Catalogue::with))
}

/// The maximum size of a metadata patch, in bytes.
const MAX_VALUES: u64 = 1 << 30;

/// Reads a metadata patch as edits: a JSON or TOML document of keys and values, where null removes a
/// key.
pub fn read_patch(path: impl AsRef<Path>) -> Result<Vec<Edit>> {
    let path = path.as_ref();
    let text = read_text(path, MAX_VALUES)?;
    let edits = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Edit::from_toml(&text),
        Some("json") => Edit::from_json(&text),
        _ => Edit::from_document(&text),
    };
    edits.map_err(|error| {
        let is_other =
            matches!(error, EditSyntaxError::NotTable | EditSyntaxError::OtherDocument(_));
        Error::from(error).within(path).with_hint(is_other.then_some(Hint::MetadataPatch))
    })
}

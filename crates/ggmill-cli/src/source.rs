//! Opening what the user named, and saying what it is when it is not a GGUF file.

use std::io;
use std::path::Path;

use ggmill_core::{ErrorKind, Model, RawStr};
use ggmill_inspect::{FileKind, sniff};
use ggmill_io::RandomAccess;
use ggmill_pipeline::GgufCheckpoint;

use crate::outcome::Failure;

/// How much of a file is looked at to tell what it is.
pub(crate) const SNIFFED: usize = 4096;

/// Opens a path; `-` is standard input, of which just the header is read. A set of shards is opened
/// whole unless it is to be `alone`.
pub(crate) fn open(path: &Path, alone: bool) -> Result<Model, Failure> {
    if path.as_os_str() == "-" {
        return read_input();
    }
    let opened = if alone { ggmill_io::open_alone(path) } else { ggmill_io::open(path) };
    opened.map_err(|error| Failure::new(&error).with_hint(hint(&error)))
}

/// Opens a path as [`open`] does. A file that ends too early is opened with what is there, and
/// comes with what is wrong with it.
pub(crate) fn open_what_is_there(
    path: &Path,
    alone: bool,
) -> Result<(Model, Option<Failure>), Failure> {
    if path.as_os_str() == "-" {
        return open(path, alone).map(|model| (model, None));
    }
    let opened = if alone { ggmill_io::open_alone(path) } else { ggmill_io::open(path) };
    opened.map(|model| (model, None)).or_else(|error| {
        let failure = Failure::new(&error).with_hint(hint(&error));
        let is_cut = error.kind() == ggmill_io::ErrorKind::Format(ErrorKind::Truncated)
            && error.path() == path;
        match ggmill_io::salvage(path) {
            Ok(model) if is_cut => Ok((model, Some(failure))),
            _ => Err(failure),
        }
    })
}

/// The bytes that standard input has from here on, where it is a file: `ggmill inspect - <
/// model.gguf`.
#[cfg(unix)]
fn input_len() -> Option<u64> {
    use std::os::fd::AsFd as _;
    let mut file = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    metadata.len().checked_sub(io::Seek::stream_position(&mut file).ok()?)
}

#[cfg(not(unix))]
fn input_len() -> Option<u64> {
    None
}

/// Reads just the header.
fn read_input() -> Result<Model, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(format_args!("standard input: {error}"));
    let read =
        ggmill_io::open_stream(io::stdin().lock(), input_len()).map_err(|error| failed(&error))?;
    read.model
        .map_err(|error| failed(&error).with_hint(hint_for_content(&error, &read.beginning, None)))
}

/// Opens a model to take its tensors: a file, or any shard of a set. Says what the file is when it
/// is none.
pub(crate) fn open_checkpoint(path: &Path) -> Result<GgufCheckpoint, Failure> {
    GgufCheckpoint::new(open_whole(path)?).map_err(Failure::new)
}

/// Opens a model to read all of it, as [`open_checkpoint`] does.
pub(crate) fn open_whole(path: &Path) -> Result<Model, Failure> {
    ggmill_io::open(path).map_err(|error| {
        // What is said of standard input and of single shards is for commands that only look.
        let is_about_content =
            path.is_dir() || matches!(error.kind(), ggmill_io::ErrorKind::Format(_));
        Failure::new(&error).with_hint(is_about_content.then(|| hint(&error)).flatten())
    })
}

/// A hint about a file that could not be opened.
fn hint(error: &ggmill_io::Error) -> Option<String> {
    let path = error.path();
    match error.kind() {
        ggmill_io::ErrorKind::Io if path.is_dir() => hint_for_directory(path),
        ggmill_io::ErrorKind::Io if path.exists() && !path.is_file() => {
            Some("a file that is not a regular file can be read as standard input: -".to_owned())
        }
        ggmill_io::ErrorKind::Shards => Some("--alone inspects one file by itself".to_owned()),
        ggmill_io::ErrorKind::Format(_) => hint_for_content(
            error.format_error()?,
            &beginning(path)?,
            path.file_name().and_then(|name| name.to_str()),
        ),
        _ => None,
    }
}

/// Describes a regular file by its first bytes.
pub(crate) fn what_it_is(path: &Path) -> Option<FileKind> {
    sniff(&beginning(path)?, path.file_name().and_then(|name| name.to_str()))
}

/// The first bytes of a regular file, as many as tell what it is.
pub(crate) fn beginning(path: &Path) -> Option<Vec<u8>> {
    let file = RandomAccess::open(path).ok()?;
    let mut bytes = vec![0; SNIFFED.min(usize::try_from(file.len()).unwrap_or(SNIFFED))];
    file.read_at(0, &mut bytes).ok()?;
    Some(bytes)
}

/// The kind of file, if it is not GGUF, and otherwise what to do about the error.
pub(crate) fn hint_for_content(
    error: &ggmill_core::Error,
    beginning: &[u8],
    name: Option<&str>,
) -> Option<String> {
    match sniff(beginning, name) {
        None | Some(FileKind::Gguf) => match error.kind() {
            // Lengths that no file has, or counts that no length is known for, are not made good by
            // more of the same.
            ErrorKind::Truncated
                if error.needed_length().is_some_and(|length| length < 1 << 50) =>
            {
                Some("fetch the rest of the file, or all of it again".to_owned())
            }
            ErrorKind::Truncated => {
                Some("the file is damaged or cut short; fetch all of it again".to_owned())
            }
            ErrorKind::Version => {
                Some("the file is damaged, or newer than this program".to_owned())
            }
            _ => None,
        },
        Some(found) => {
            let advice = found.hint().map(|advice| format!("; {advice}")).unwrap_or_default();
            Some(format!("this is {found}{advice}"))
        }
    }
}

/// The files in a directory that could have been meant.
fn hint_for_directory(directory: &Path) -> Option<String> {
    const SHOWN: usize = 4;
    if directory.join("config.json").is_file() {
        return Some(
            "this is a checkpoint's directory; `ggmill convert` makes a GGUF file of it".to_owned(),
        );
    }
    let files =
        std::fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut names: Vec<_> = files
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "gguf"))
        .collect();
    names.sort_unstable();
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| RawStr::new(name.as_encoded_bytes()).to_string())
        .collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    (!shown.is_empty()).then(|| format!("GGUF files in it: {}{more}", shown.join(", ")))
}

//! Opens models by path, address or from standard input; hints say what a file is if it is not GGUF.

use std::io;
use std::path::Path;

use ggmill::Hint;
use ggmill_core::{Model, Part, RawStr, ReadAt};
use ggmill_inspect::{FileKind, SNIFFED, sniff};
use ggmill_io::{OpenFailure, RandomAccess};
use ggmill_pipeline::GgufCheckpoint;

use crate::content::hint_for_content;
use crate::outcome::Failure;
use crate::remote;

/// Opens a path; `-` is standard input, of which just the header is read. A set of shards is opened
/// whole unless it is to be `alone`.
pub(crate) fn open(path: &Path, alone: bool) -> Result<ggmill::Model, Failure> {
    if path.as_os_str() == "-" {
        return read_input();
    }
    Ok(remote::options(path)?.alone(alone).open(path)?)
}

/// Opens a path as [`open`] does. A file that ends too early is opened as far as it goes, and comes
/// with the failure that says so.
pub(crate) fn open_partial(
    path: &Path,
    alone: bool,
) -> Result<(ggmill::Model, Option<Failure>), Failure> {
    if path.as_os_str() == "-" {
        return read_input().map(|model| (model, None));
    }
    let (model, error) = remote::options(path)?.alone(alone).open_partial(path)?;
    Ok((model, error.map(Failure::from)))
}

/// Opens a path as [`open`] does, to read nothing but its header, which must be complete.
pub(crate) fn open_header(path: &Path) -> Result<ggmill::Model, Failure> {
    if path.as_os_str() == "-" {
        return read_input();
    }
    Ok(remote::options(path)?.open_header(path)?)
}

/// Returns the remaining length of standard input if it is a file: `ggmill inspect - < model.gguf`.
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

/// Reads the header of a model from standard input.
fn read_input() -> Result<ggmill::Model, Failure> {
    let read = ggmill::Model::read_header(io::stdin().lock(), input_len(), "-");
    read.map_err(|error| Failure::from(error).within(Path::new("standard input")))
}

/// Opens a model to take its tensors: a file, or any shard of a set. Says what the file is when it
/// is none.
pub(crate) fn open_checkpoint(path: &Path) -> Result<GgufCheckpoint, Failure> {
    GgufCheckpoint::new(open_whole(path)?).map_err(Failure::new)
}

/// Opens a model to read all of it.
pub(crate) fn open_model(path: &Path) -> Result<ggmill::Model, Failure> {
    refuse_input(path)?;
    remote::options(path)?.open(path).map_err(|error| {
        // Standard input and single shards are for commands that only look.
        let is_for_looking = matches!(error.hint(), Some(Hint::OpenAlone | Hint::ReadAsStream));
        if is_for_looking { Failure::new(error) } else { Failure::from(error) }
    })
}

/// Refuses standard input where more than the header of a file is read. A file can have this name.
pub(crate) fn refuse_input(path: &Path) -> Result<(), Failure> {
    if path.as_os_str() != "-" || path.exists() {
        return Ok(());
    }
    let message = "-: tensor data is read at any place, which standard input does not allow";
    Err(Failure::new(message).with_hint(Some(
        "save it to a file, or name the file itself; `ggmill inspect -` and `ggmill get - KEY` \
         read a header from standard input"
            .to_owned(),
    )))
}

/// Opens a model to read all of it, as [`open_checkpoint`] does.
pub(crate) fn open_whole(path: &Path) -> Result<Model, Failure> {
    refuse_input(path)?;
    if let Some(opened) = remote::open(path, false) {
        return opened;
    }
    ggmill_io::open(path).map_err(|error| {
        // What is said of standard input and of single shards is for commands that only look.
        let is_about_content =
            path.is_dir() || matches!(error.kind(), ggmill_io::ErrorKind::Format(_));
        Failure::new(&error).with_hint(is_about_content.then(|| hint(&error)).flatten())
    })
}

/// Opens one file by itself, with nothing to say about what went wrong but that.
pub(crate) fn open_alone(path: &Path) -> Result<Model, Failure> {
    remote::open(path, true).unwrap_or_else(|| ggmill_io::open_alone(path).map_err(Failure::new))
}

/// Opens any file to read its bytes.
pub(crate) fn open_bytes(path: &Path) -> Result<Box<dyn ReadAt>, Failure> {
    remote::open_bytes(path).unwrap_or_else(|| {
        let file = RandomAccess::open(path).map_err(Failure::new)?;
        Ok(Box::new(file) as Box<dyn ReadAt>)
    })
}

/// Opens what can be known of one file that may be broken. What is not GGUF at all is told by its
/// error and its first bytes.
pub(crate) fn salvage<T>(
    path: &Path,
    not_gguf: impl Fn(&ggmill_core::Error, &[u8]) -> T,
) -> Result<Result<Model, T>, Failure> {
    if let Some(opened) = remote::salvage(path, &not_gguf) {
        return opened;
    }
    ggmill_io::salvage(path).map(Ok).or_else(|error| match error.format_error() {
        Some(format) => Ok(Err(not_gguf(format, &beginning(path).unwrap_or_default()))),
        None => Err(Failure::new(&error)),
    })
}

/// What keeps a file and those of its set from being opened as one model.
pub(crate) fn open_failure(path: &Path) -> Option<OpenFailure> {
    if let Some(found) = remote::open_failure(path) {
        return found.err();
    }
    ggmill_io::open_failure(path)
}

/// The names of a model's files, without their directories.
pub(crate) fn file_names(model: &Model) -> Vec<String> {
    let last = |name: RawStr<'_>| {
        let bytes = name.as_bytes();
        RawStr::new(bytes.rsplit(|&byte| byte == b'/').next().unwrap_or(bytes)).to_string()
    };
    let of_part = |part: &Part| match ggmill_io::file_of(part) {
        Some(file) => Some(RawStr::new(file.path().file_name()?.as_encoded_bytes()).to_string()),
        None => part.name().map(last),
    };
    model.parts().iter().filter_map(of_part).collect()
}

/// A hint about a file that could not be opened.
fn hint(error: &ggmill_io::Error) -> Option<String> {
    let path = error.path();
    match error.kind() {
        ggmill_io::ErrorKind::Io if path.is_dir() => hint_for_directory(path),
        ggmill_io::ErrorKind::Io if path.exists() && !path.is_file() => {
            Some("this is not a regular file; pass it as standard input, with - as FILE".to_owned())
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
    RandomAccess::open(path).ok()?.beginning(SNIFFED).ok()
}

/// The files in a directory that could have been meant.
fn hint_for_directory(directory: &Path) -> Option<String> {
    const SHOWN: usize = 4;
    if directory.join("config.json").is_file() {
        return Some(
            "this is a checkpoint directory; `ggmill convert` converts it to GGUF".to_owned(),
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
    (!shown.is_empty()).then(|| format!("GGUF files in this directory: {}{more}", shown.join(", ")))
}

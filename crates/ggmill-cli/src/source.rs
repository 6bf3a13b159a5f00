//! Opens models by path, address or from standard input; hints say what a file is if it is not GGUF.

use std::io;
use std::path::Path;

use ggmill::Hint;
use ggmill_inspect::{FileKind, SNIFFED, sniff};
use ggmill_io::RandomAccess;

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

/// Describes a regular file by its first bytes.
pub(crate) fn what_it_is(path: &Path) -> Option<FileKind> {
    sniff(&beginning(path)?, path.file_name().and_then(|name| name.to_str()))
}

/// The first bytes of a regular file, as many as tell what it is.
fn beginning(path: &Path) -> Option<Vec<u8>> {
    RandomAccess::open(path).ok()?.beginning(SNIFFED).ok()
}

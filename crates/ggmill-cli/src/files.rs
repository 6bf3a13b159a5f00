//! The files of a command: opens models and tokenizers by path, by address, or from standard input,
//! checks output paths before the work begins, and displays paths. An input is never overwritten.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use ggmill::Hint;
use ggmill::convert::LibraryTokenizer;
use ggmill_inspect::{FileKind, SNIFFED, sniff};
use ggmill_io::RandomAccess;
use ggmill_tokenizer::{LoadOptions, Tokenizer};

use crate::console::Console;
use crate::outcome::Failure;
use crate::remote;

/// Opens a model; `-` is standard input, of which only the header is read. A shard opens its whole set
/// unless `alone` is set.
pub(crate) fn open(path: &Path, alone: bool) -> Result<ggmill::Model, Failure> {
    if path.as_os_str() == "-" {
        return read_input();
    }
    Ok(remote::options(path)?.alone(alone).open(path)?)
}

/// Opens a model as [`open`] does. For a truncated file, returns the readable part, and the failure
/// that reports the truncation.
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

/// Opens a model as [`open`] does, to read only its header, which must be complete.
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

/// Opens a model to read its tensor data, so not from standard input.
pub(crate) fn open_model(path: &Path) -> Result<ggmill::Model, Failure> {
    refuse_input(path)?;
    remote::options(path)?.open(path).map_err(|error| {
        // These hints name options of `inspect`, which the commands that read tensor data lack.
        let is_for_inspect = matches!(error.hint(), Some(Hint::OpenAlone | Hint::ReadAsStream));
        if is_for_inspect { Failure::new(error) } else { Failure::from(error) }
    })
}

/// Fails for `-`, unless a file has this name: tensor data cannot be read from standard input.
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

/// Returns the kind of a regular file, by its first bytes and its name.
pub(crate) fn kind_of_file(path: &Path) -> Option<FileKind> {
    let beginning = RandomAccess::open(path).ok()?.beginning(SNIFFED).ok()?;
    sniff(&beginning, path.file_name().and_then(|name| name.to_str()))
}

/// Opens the tokenizer of a model, or of the tokenizer files of a checkpoint, and prints the notes
/// about it. `pre` replaces its pre-tokenizer.
pub(crate) fn open_tokenizer(
    path: &Path,
    pre: Option<&str>,
    console: Console,
) -> Result<Tokenizer, Failure> {
    if path.as_os_str() == "-" {
        let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
        return Ok(open(path, false)?.tokenizer_with(&options)?);
    }
    let (tokenizer, notes) = remote::options(path)?.open_tokenizer(path, pre)?;
    for note in &notes {
        console.tell(note);
    }
    Ok(tokenizer)
}

/// Opens a `tokenizer.json` as the library reads it; `None` for another model or tokenizer.
pub(crate) fn open_library_tokenizer(path: &Path) -> Result<Option<LibraryTokenizer>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    Ok(remote::options(path)?.open_library_tokenizer(path)?)
}

/// Fails if `output` could not be written: it is one of the inputs or not a regular file, its
/// directory is missing or not writable, or it exists and `force` is not set.
pub(crate) fn check_output(output: &Path, inputs: &[PathBuf], force: bool) -> Result<(), Failure> {
    refuse_stream(output)?;
    Ok(ggmill::check_output(output, inputs, force)?)
}

/// Fails if shards with this prefix could not be written, because their directory is missing or not
/// writable. The number of shards is known only when they are planned, so the first one is checked.
pub(crate) fn check_shard_prefix(prefix: &Path) -> Result<(), Failure> {
    let paths = ggmill_io::shard_paths(prefix, 1).ok_or_else(|| {
        Failure::new(format_args!("{}: expected the prefix of the shards' names", shown(prefix)))
    })?;
    paths.iter().try_for_each(|path| check_output(path, &[], true))
}

/// Writes bytes to a file, completely or not at all. Fails as [`check_output`] does.
pub(crate) fn write_file(
    output: &Path,
    inputs: &[PathBuf],
    force: bool,
    bytes: &[u8],
) -> Result<(), Failure> {
    refuse_stream(output)?;
    Ok(ggmill::write_file(output, inputs, force, bytes)?)
}

/// Fails for `-`: a model is not written to standard output.
pub(crate) fn refuse_stream(output: &Path) -> Result<(), Failure> {
    if output.as_os_str() != "-" {
        return Ok(());
    }
    let hint = Some("use ./- for a file with this name".to_owned());
    Err(Failure::new("-: a model is written to a file, not to standard output").with_hint(hint))
}

/// Returns a path for a message: control characters are escaped, and an address has no secrets.
pub(crate) fn shown(path: &Path) -> impl fmt::Display + '_ {
    ggmill::display_path(path)
}

/// Returns a path for a document, such as a JSON report: not escaped; an address has no secrets.
pub(crate) fn text_of(path: &Path) -> String {
    remote::shown(path).unwrap_or_else(|| path.to_string_lossy().into_owned())
}

/// Returns the last component of a path or an address.
pub(crate) fn file_name(path: &Path) -> String {
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    remote::file_name(path).unwrap_or_else(name)
}

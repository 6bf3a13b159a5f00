//! Files that are written, and the files they are made of, none of which is written over.

use std::path::{Path, PathBuf};

use ggmill_core::Sink as _;
use ggmill_io::{FileSink, Overwrite};

use crate::outcome::Failure;
use crate::paths::shown;

/// Refuses, before the work begins, what no amount of work would change about writing a file: it is
/// one of the inputs, its directory is missing or not writable, the path leads to no file, or it
/// exists and `force` is not set.
pub(crate) fn look_ahead(output: &Path, inputs: &[PathBuf], force: bool) -> Result<(), Failure> {
    refuse_stream(output)?;
    Ok(ggmill::check_output(output, inputs, force)?)
}

/// Refuses, before the work begins, a prefix of shards in a directory that is missing or not
/// writable. Which shards are written is known when they are planned.
pub(crate) fn look_ahead_shards(prefix: &Path) -> Result<(), Failure> {
    let paths = ggmill_io::shard_paths(prefix, 1).ok_or_else(|| {
        Failure::new(format_args!("{}: expected the prefix of the shards' names", shown(prefix)))
    })?;
    paths.iter().try_for_each(|path| look_ahead(path, &[], true))
}

/// Starts an output of this many bytes. It is the one way to a new file, and never leads over an
/// input.
pub(crate) fn start(
    output: &Path,
    inputs: &[PathBuf],
    force: bool,
    len: u64,
) -> Result<FileSink, Failure> {
    refuse_stream(output)?;
    FileSink::start(output, inputs, overwrite(force), len).map_err(|error| not_started(&error))
}

/// What becomes of a file that exists.
fn overwrite(force: bool) -> Overwrite {
    if force { Overwrite::Replace } else { Overwrite::Refuse }
}

/// An output that could not be started, with what to do about it.
fn not_started(error: &ggmill_io::Error) -> Failure {
    let hint = match error.kind() {
        ggmill_io::ErrorKind::Exists => Some("--force replaces it".to_owned()),
        ggmill_io::ErrorKind::Io if !error.path().exists() => {
            Some(format!("`mkdir -p {}` creates the directory", shown(error.path())))
        }
        _ => None,
    };
    Failure::new(error).with_hint(hint)
}

/// Writes a file that is whole in memory.
pub(crate) fn write_file(
    output: &Path,
    inputs: &[PathBuf],
    force: bool,
    bytes: &[u8],
) -> Result<(), Failure> {
    let mut sink = start(output, inputs, force, bytes.len() as u64)?;
    sink.append(bytes).map_err(Failure::new)?;
    sink.commit().map_err(Failure::new)
}

/// Refuses `-`: a model is not written to standard output.
pub(crate) fn refuse_stream(output: &Path) -> Result<(), Failure> {
    if output.as_os_str() != "-" {
        return Ok(());
    }
    let hint = Some("use ./- for a file with this name".to_owned());
    Err(Failure::new("-: a model is written to a file, not to standard output").with_hint(hint))
}

/// Refuses files that an interrupted edit has left halfway.
pub(crate) fn refuse_interrupted(inputs: &[impl AsRef<Path>]) -> Result<(), Failure> {
    for input in inputs.iter().map(AsRef::as_ref) {
        if ggmill_io::pending_journal(input).is_some() {
            let hint = Some("`ggmill edit --recover FILE` finishes or undoes it".to_owned());
            return Err(Failure::new(format_args!(
                "{}: an edit of this file was interrupted",
                shown(input)
            ))
            .with_hint(hint));
        }
    }
    Ok(())
}

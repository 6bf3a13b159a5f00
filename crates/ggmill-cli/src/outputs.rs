//! Files that are written, and the files they are made of, none of which is written over.

use std::path::{Path, PathBuf};

use ggmill_core::Sink as _;
use ggmill_io::{FileSink, Overwrite};
use ggmill_pipeline::GgufCheckpoint;

use crate::outcome::Failure;
use crate::paths::shown;

/// A file to be written, checked before the work begins: what can be known without its length is
/// refused then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output<'a> {
    path: &'a Path,
    force: bool,
    dry_run: bool,
}

impl<'a> Output<'a> {
    /// Refuses an output that is one of these inputs, and what no amount of work would change: a
    /// directory that is missing or not writable, a path that leads to no file, and a file that
    /// exists unless `force`. A dry run is refused here as the run is, before its plan is printed.
    pub(crate) fn new(
        path: &'a Path,
        inputs: &[PathBuf],
        force: bool,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        drop(start(path, inputs, force, 0)?);
        Ok(Self { path, force, dry_run })
    }

    pub(crate) fn path(self) -> &'a Path {
        self.path
    }

    /// Whether nothing is to be written.
    pub(crate) fn is_dry_run(self) -> bool {
        self.dry_run
    }

    /// Starts the file, for this many bytes.
    pub(crate) fn start(self, inputs: &[PathBuf], len: u64) -> Result<FileSink, Failure> {
        start(self.path, inputs, self.force, len)
    }

    /// The end of a dry run, whose plan says how long the file would be: refuses what the run would
    /// be refused for, which by now is want of space. Nothing is left behind.
    pub(crate) fn end_dry_run(self, inputs: &[PathBuf], len: u64) -> Result<(), Failure> {
        self.start(inputs, len).map(drop)
    }
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
pub(crate) fn overwrite(force: bool) -> Overwrite {
    if force { Overwrite::Replace } else { Overwrite::Refuse }
}

/// An output that could not be started, with what to do about it.
pub(crate) fn not_started(error: &ggmill_io::Error) -> Failure {
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

/// Refuses an output that is one of the files it is made of, under whatever name, and one that is
/// not a file.
pub(crate) fn refuse_inputs(output: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    refuse_stream(output)?;
    ggmill_io::refuse_inputs(output, inputs).map_err(Failure::new)
}

/// Refuses `-`: a model is not written to standard output.
pub(crate) fn refuse_stream(output: &Path) -> Result<(), Failure> {
    if output.as_os_str() != "-" {
        return Ok(());
    }
    let hint = Some("use ./- for a file with this name".to_owned());
    Err(Failure::new("-: a model is written to a file, not to standard output").with_hint(hint))
}

/// The files of a model, none of which may be left halfway by an edit.
pub(crate) fn inputs_of(checkpoint: &GgufCheckpoint) -> Result<Vec<PathBuf>, Failure> {
    let inputs: Vec<PathBuf> =
        ggmill_io::files(checkpoint.model()).map(|file| file.path().to_owned()).collect();
    refuse_interrupted(&inputs)?;
    Ok(inputs)
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

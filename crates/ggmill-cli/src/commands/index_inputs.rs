//! Which files an index is made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ggmill_inspect::index::Candidate;

use crate::content::hint_for_content;
use crate::gather::{is_gguf, walk};
use crate::outcome::Failure;
use crate::paths::{file_name, raw, refuse_missing, shown};
use crate::remote;
use crate::source;

/// A file of an index.
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) candidate: Candidate,
    /// Why it cannot be read, if that is known already: it is a directory.
    fault: Option<String>,
}

/// The files that the paths name, in directories and repositories the GGUF files, in the order of
/// their paths and each once. A directory below one that cannot be read is among them.
pub(super) fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Failure> {
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for path in paths {
        let before = files.len() + unreadable.len();
        match remote::gguf_files(path) {
            Some(found) => files.extend(found?),
            None => named(path, &mut files, &mut unreadable)?,
        }
        if files.len() + unreadable.len() == before {
            return Err(Failure::new(format_args!("{}: no .gguf files found", shown(path))));
        }
    }
    let unreadable = unreadable.into_iter().map(|(path, error): (PathBuf, std::io::Error)| Input {
        candidate: Candidate::new(text_of(&path)),
        path,
        fault: Some(error.to_string()),
    });
    let files =
        files.into_iter().map(|path| Input { candidate: candidate(&path), path, fault: None });
    let mut inputs: Vec<Input> = files.chain(unreadable).collect();
    inputs.sort_by(|a, b| (&a.candidate.path, &a.path).cmp(&(&b.candidate.path, &b.path)));
    inputs.dedup_by(|a, b| a.path == b.path);
    Ok(inputs)
}

/// The files that a path on this machine names.
fn named(
    path: &Path,
    files: &mut Vec<PathBuf>,
    unreadable: &mut Vec<(PathBuf, std::io::Error)>,
) -> Result<(), Failure> {
    let refused =
        |why: &dyn std::fmt::Display| Failure::new(format_args!("{}: {why}", shown(path)));
    if path.as_os_str() == "-" {
        return Err(refused(&"standard input cannot be indexed"));
    }
    // What is named has to be there; what is found may vanish, and is a row then.
    refuse_missing(path)?;
    let metadata = fs::metadata(path).map_err(|error| refused(&error))?;
    if metadata.is_dir() {
        fs::read_dir(path).map_err(|error| refused(&error))?;
    }
    walk(path, &is_gguf, files, unreadable);
    Ok(())
}

/// What is known of a file before it is opened.
fn candidate(path: &Path) -> Candidate {
    let candidate = Candidate::new(text_of(path));
    // Two names that are not UTF-8 could be the same text.
    let is_local = path.to_str().is_some() && !remote::is_remote(path);
    let Some(metadata) = is_local.then(|| fs::metadata(path).ok()).flatten() else {
        return candidate;
    };
    let microseconds =
        metadata.modified().ok().and_then(|time| match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).ok(),
            Err(before) => i64::try_from(before.duration().as_micros()).ok().map(|time| -time),
        });
    candidate.with_state(Some(metadata.len()), microseconds)
}

/// The path as the tables have it: an address without its secrets, and what is not UTF-8 escaped.
fn text_of(path: &Path) -> String {
    let own = || path.to_str().map_or_else(|| raw(path).to_string(), str::to_owned);
    remote::shown(path).unwrap_or_else(own)
}

impl Input {
    /// Opens what can be read of the file, or says why nothing can.
    pub(super) fn open(&self) -> Result<ggmill_core::Model, String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let name = file_name(&self.path);
        let opened = source::salvage(&self.path, |error, beginning| {
            Failure::new(error).with_hint(hint_for_content(error, beginning, Some(&name)))
        });
        match opened {
            Ok(Ok(model)) => Ok(model),
            Ok(Err(failure)) | Err(failure) => Err(self.reason(failure)),
        }
    }

    /// A failure as text, without the path, which the row has.
    fn reason(&self, failure: Failure) -> String {
        let Failure::Refused { message, hint } = failure else {
            return "the connection was closed".to_owned();
        };
        let prefix = format!("{}: ", shown(&self.path));
        let message = message.strip_prefix(&prefix).unwrap_or(&message);
        match hint {
            Some(hint) => format!("{message}; {hint}"),
            None => message.to_owned(),
        }
    }
}

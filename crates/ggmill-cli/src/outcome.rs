//! The result of a command: its status or failure, and the exit code.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use ggmill::Hint;

use crate::console::Console;
use crate::files::shown;
use crate::hints;

/// The status of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Exit code 0.
    Fine,
    /// Exit code 1: there are findings or differences, or nothing matches.
    Findings,
}

/// The failure of a command.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The reader closed standard output.
    Closed,
    /// Exit code 2: the message and the hint are printed.
    Refused {
        /// The fault, its place and its reason, in lower case and without a full stop.
        message: String,
        /// How to fix it.
        hint: Option<String>,
    },
}

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::Refused { message: message.to_string(), hint: None }
    }

    /// Returns the message.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Refused { message, .. } => message,
            Self::Closed => "standard output was closed",
        }
    }

    /// Puts a path before the message.
    pub(crate) fn within(self, path: &Path) -> Self {
        match self {
            Self::Refused { message, hint } => {
                Self::Refused { message: format!("{}: {message}", shown(path)), hint }
            }
            Self::Closed => Self::Closed,
        }
    }

    /// Adds a hint, unless there is one.
    pub(crate) fn with_hint(self, added: Option<String>) -> Self {
        match self {
            Self::Refused { message, hint } => Self::Refused { message, hint: hint.or(added) },
            Self::Closed => Self::Closed,
        }
    }
}

impl From<ggmill::Error> for Failure {
    /// Converts an error of the library. Its hint names options, and so do a few messages.
    fn from(error: ggmill::Error) -> Self {
        let message = match error.hint() {
            Some(Hint::TensorPattern { .. }) => format!("--tensor-type {error}"),
            Some(Hint::OnlyAdapters) => format!("{error}; --base applies only to adapters"),
            Some(Hint::OnlyDrafts) => format!("{error}; --target applies only to draft models"),
            Some(Hint::NotSupported { option, source }) => {
                format!("{}: not supported for {source}", hints::flag(option))
            }
            _ => match error.kind_name() {
                // About the target of a draft model; the message begins with `target`.
                "target" => format!("--{error}"),
                "unknown_caches" => error
                    .to_string()
                    .replace("what fits cannot be determined", "--fit cannot be used"),
                "description" => {
                    error.to_string().replace("the description is of", "--arch-file describes")
                }
                _ => error.to_string(),
            },
        };
        let hint = match (error.hint(), error.path()) {
            (Some(Hint::Recover), Some(path)) => {
                Some(format!("`ggmill edit --recover {}` finishes or undoes it", shown(path)))
            }
            (hint, _) => hint.and_then(hints::hint),
        };
        Self::Refused { message, hint }
    }
}

impl From<io::Error> for Failure {
    /// Converts an error of writing to standard output.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ if error.raw_os_error().is_some() => {
                Self::new(format_args!("cannot write to standard output: {error}"))
            }
            // An error of the value that was serialized, not of the stream.
            _ => Self::new(error),
        }
    }
}

pub(crate) fn exit_code(result: &Result<Status, Failure>) -> ExitCode {
    ExitCode::from(match result {
        Ok(Status::Fine) | Err(Failure::Closed) => 0,
        Ok(Status::Findings) => 1,
        Err(Failure::Refused { .. }) => 2,
    })
}

/// Runs `work` for each file, and continues after a failure. Returns the last failure, and prints the
/// earlier ones; without failures returns [`Status::Findings`] if any file has findings.
pub(crate) fn each<T>(
    files: &[T],
    console: Console,
    mut work: impl FnMut(usize, &T) -> Result<Status, Failure>,
) -> Result<Status, Failure> {
    let mut status = Status::Fine;
    let mut failed: Option<Failure> = None;
    for (number, file) in files.iter().enumerate() {
        match work(number, file) {
            Ok(Status::Fine) => {}
            Ok(Status::Findings) => status = Status::Findings,
            Err(Failure::Closed) => return Err(Failure::Closed),
            Err(failure) => {
                if let Some(earlier) = failed.replace(failure) {
                    console.error(&earlier);
                }
            }
        }
    }
    failed.map_or(Ok(status), Err)
}

//! How a command ends.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use ggmill::Hint;

use crate::hints;
use crate::paths::shown;

/// The end of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Nothing to remark.
    Fine,
    /// There are findings or differences, or nothing was found.
    Findings,
}

/// Why a command did not do its work.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The reader closed standard output.
    Closed,
    /// Something was refused or failed.
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

    /// The fault, its place and its reason.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Refused { message, .. } => message,
            Self::Closed => "standard output was closed",
        }
    }

    /// Names the file that a failure is about.
    pub(crate) fn within(self, path: &Path) -> Self {
        match self {
            Self::Refused { message, hint } => {
                Self::Refused { message: format!("{}: {message}", shown(path)), hint }
            }
            Self::Closed => Self::Closed,
        }
    }

    /// Adds what to do about it.
    pub(crate) fn with_hint(self, more: Option<String>) -> Self {
        match self {
            Self::Refused { message, hint } => Self::Refused { message, hint: hint.or(more) },
            Self::Closed => Self::Closed,
        }
    }
}

impl From<ggmill::Error> for Failure {
    /// An error of the library, with its hint in terms of options.
    fn from(error: ggmill::Error) -> Self {
        let message = match error.hint() {
            Some(Hint::TensorPattern { .. }) => format!("--tensor-type {error}"),
            Some(Hint::OnlyAdapters) => format!("{error}; --base applies only to adapters"),
            Some(Hint::OnlyDrafts) => format!("{error}; --target applies only to draft models"),
            Some(Hint::NotSupported { option, source }) => {
                format!("{}: not supported for {source}", hints::flag(option))
            }
            _ => match error.kind_name() {
                // The error of the target of a draft model.
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
        Self::Refused { message, hint: error.hint().and_then(hints::hint) }
    }
}

impl From<io::Error> for Failure {
    /// An error of writing a result.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ if error.raw_os_error().is_some() => {
                Self::new(format_args!("cannot write to standard output: {error}"))
            }
            // Raised on the way by what was to be written.
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

//! Errors of the libraries as exceptions of the package.

use std::path::{Path, PathBuf};

use ggmill::core::Subject;
use ggmill::{RawStr, estimate, io, pipeline, quant, template, tokenizer};
use pyo3::prelude::*;

/// A result with this module's [`Failure`].
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a call failed: what becomes an exception when it reaches Python.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An exception that Python raised, in a callback for one.
    Raised(PyErr),
    /// An error of the libraries.
    Refused(Box<Refusal>),
}

/// The facts of an error; `ggmill._errors.error_of` chooses the class of the exception.
#[derive(Debug, Default)]
pub(crate) struct Refusal {
    message: String,
    kind: String,
    offset: Option<u64>,
    subject: Option<String>,
    path: Option<PathBuf>,
    errno: Option<i32>,
}

impl Failure {
    /// An error of this kind with this message.
    pub(crate) fn new(kind: &str, message: impl Into<String>) -> Self {
        Self::Refused(Box::new(Refusal {
            message: message.into(),
            kind: kind.to_owned(),
            ..Refusal::default()
        }))
    }

    /// The caller broke a rule of the interface.
    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self::new("misuse", message)
    }

    /// A model that was closed is used.
    pub(crate) fn closed(path: &Path) -> Self {
        Self::new("closed", "the model is closed").at(path)
    }

    /// The same error about this file, unless it is about one already. The message begins with its
    /// path.
    pub(crate) fn at(mut self, path: &Path) -> Self {
        if let Self::Refused(refusal) = &mut self
            && refusal.path.is_none()
        {
            refusal.path = Some(path.to_owned());
            let shown = RawStr::new(path.as_os_str().as_encoded_bytes());
            refusal.message = format!("{shown}: {}", refusal.message);
        }
        self
    }

    /// The same error about this metadata key.
    pub(crate) fn about_key(mut self, key: &[u8]) -> Self {
        if let Self::Refused(refusal) = &mut self
            && refusal.subject.is_none()
        {
            let subject = subject(Subject::Key(RawStr::new(key)));
            refusal.message = format!("{subject}: {}", refusal.message);
            refusal.subject = Some(subject);
        }
        self
    }

    fn exception(self) -> PyErr {
        let refusal = match self {
            Self::Raised(error) => return error,
            Self::Refused(refusal) => *refusal,
        };
        Python::attach(|py| -> PyResult<PyErr> {
            let Refusal { message, kind, offset, subject, path, errno } = refusal;
            let path = path.map(PathBuf::into_os_string);
            let value = py
                .import("ggmill._errors")?
                .getattr("error_of")?
                .call1((message, kind, offset, subject, path, errno))?;
            Ok(PyErr::from_value(value))
        })
        .unwrap_or_else(|error| error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        failure.exception()
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<std::convert::Infallible> for Failure {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<ggmill::core::Error> for Failure {
    fn from(error: ggmill::core::Error) -> Self {
        if let Some(cause) = error.cause().and_then(|cause| cause.downcast_ref::<io::Error>()) {
            return Self::from(cause);
        }
        Self::Refused(Box::new(of_format(&error)))
    }
}

impl From<ggmill::Error> for Failure {
    fn from(error: ggmill::Error) -> Self {
        let key = error.key().map(Subject::Key);
        let about = key.or(error.tensor().map(Subject::Tensor)).map(subject);
        Self::Refused(Box::new(Refusal {
            message: error.to_string(),
            kind: error.kind_name().to_owned(),
            offset: error.offset(),
            subject: about,
            path: error.path().map(Path::to_owned),
            errno: error.os_code(),
        }))
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        let errno = error.io_error().and_then(std::io::Error::raw_os_error);
        Self::Refused(Box::new(Refusal {
            message: error.to_string(),
            kind: error.kind().name().to_owned(),
            offset: error.offset(),
            subject: error.subject().map(subject),
            path: Some(error.path().to_owned()),
            errno,
        }))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::from(&error)
    }
}

impl From<pipeline::Error> for Failure {
    fn from(error: pipeline::Error) -> Self {
        if let Some(cause) = error.cause().and_then(|cause| cause.downcast_ref::<io::Error>()) {
            return Self::from(cause);
        }
        let of_cause = error
            .cause()
            .and_then(|cause| cause.downcast_ref::<ggmill::core::Error>())
            .map(of_format)
            .unwrap_or_default();
        let own = Some(error.subject()).filter(|subject| !subject.is_empty());
        Self::Refused(Box::new(Refusal {
            message: error.to_string(),
            kind: error.kind().name().to_owned(),
            subject: own.map(str::to_owned).or(of_cause.subject),
            path: error.path().map(Path::to_owned),
            ..of_cause
        }))
    }
}

impl From<quant::Error> for Failure {
    fn from(error: quant::Error) -> Self {
        Self::new(error.kind().name(), error.to_string())
    }
}

impl From<ggmill::run::Error> for Failure {
    fn from(error: ggmill::run::Error) -> Self {
        use ggmill::run::ErrorKind;
        match error.kind() {
            // Of checkpoints these kinds are about what a file contains.
            ErrorKind::Memory | ErrorKind::Vocabulary => Self::misuse(error.to_string()),
            kind => Self::new(kind.name(), error.to_string()),
        }
    }
}

impl From<estimate::Error> for Failure {
    fn from(error: estimate::Error) -> Self {
        Self::misuse(error.to_string())
    }
}

impl From<tokenizer::Error> for Failure {
    fn from(error: tokenizer::Error) -> Self {
        let key = error.key().map(|key| subject(Subject::Key(RawStr::from(key))));
        Self::Refused(Box::new(Refusal {
            message: error.to_string(),
            kind: error.kind().name().to_owned(),
            subject: key,
            ..Refusal::default()
        }))
    }
}

impl From<ggmill::arch::Error> for Failure {
    fn from(error: ggmill::arch::Error) -> Self {
        Self::new("architecture", error.to_string())
    }
}

impl From<template::Error> for Failure {
    fn from(error: template::Error) -> Self {
        // What a template says of itself may have anything in it.
        let message = RawStr::from(&*error.to_string()).to_string();
        Self::new(error.kind().name(), message)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new("io", error.to_string())
    }
}

fn of_format(error: &ggmill::core::Error) -> Refusal {
    Refusal {
        message: error.to_string(),
        kind: error.kind().name().to_owned(),
        offset: error.offset(),
        subject: error.subject().map(subject),
        ..Refusal::default()
    }
}

/// `key "general.alignment"`, as messages have it.
fn subject(subject: Subject<'_>) -> String {
    match subject {
        Subject::Key(key) => format!("key {key:?}"),
        Subject::Tensor(name) => format!("tensor {name:?}"),
        _ => String::new(),
    }
}

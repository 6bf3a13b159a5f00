//! Errors as exceptions of the package.

use std::path::{Path, PathBuf};

use ggmill::core::Subject;
use ggmill::{Hint, RawStr, template};
use pyo3::prelude::*;

/// A result with this module's [`Failure`].
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a call failed. It becomes an exception when it reaches Python.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An exception that Python code raised, such as a progress callback.
    Raised(PyErr),
    /// An error of the library or of this module.
    Refused(Box<Refusal>),
}

/// An exception before it is created: its class and its attributes.
#[derive(Debug)]
pub(crate) struct Refusal {
    class: Class,
    message: String,
    kind: String,
    offset: Option<u64>,
    subject: Option<String>,
    path: Option<PathBuf>,
    errno: Option<i32>,
}

/// A class in `ggmill._errors`.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::enum_variant_names, reason = "the names of the exceptions")]
pub(crate) enum Class {
    ArgumentError,
    ClosedError,
    FileError,
    ForbiddenError,
    FormatError,
    MissingError,
    NoSuchFileError,
    OutputExistsError,
    StoppedError,
    UnsupportedError,
}

impl Class {
    fn of(error: &ggmill::Error) -> Self {
        match error.kind_name() {
            // Where the class is not that of the predicate, it is the documented one.
            "not_finite" | "security" | "version" => Self::FormatError,
            "architecture" => Self::UnsupportedError,
            "not_editable" => Self::FileError,
            "types" => Self::ArgumentError,
            // The memory that a caller allows is an argument.
            "memory" if error.hint() == Some(&Hint::MoreMemory) => Self::ArgumentError,
            "io" if error.is_not_found() => Self::NoSuchFileError,
            _ if error.is_not_found() => Self::MissingError,
            _ if error.is_already_exists() => Self::OutputExistsError,
            _ if error.is_denied() => Self::ForbiddenError,
            _ if error.is_unsupported() => Self::UnsupportedError,
            _ if error.is_refused() || error.is_misuse() => Self::ArgumentError,
            _ if error.is_cancelled() => Self::StoppedError,
            _ if error.is_changed() || error.is_io() => Self::FileError,
            _ => Self::FormatError,
        }
    }
}

impl Failure {
    pub(crate) fn new(class: Class, kind: &str, message: impl Into<String>) -> Self {
        Self::Refused(Box::new(Refusal {
            class,
            message: message.into(),
            kind: kind.to_owned(),
            offset: None,
            subject: None,
            path: None,
            errno: None,
        }))
    }

    /// An argument is invalid.
    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self::new(Class::ArgumentError, "misuse", message)
    }

    /// A limit was exceeded, or there is too little memory.
    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(Class::FormatError, "limit", message)
    }

    /// The input is valid, but not supported.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Class::UnsupportedError, "unsupported", message)
    }

    /// A closed model is used.
    pub(crate) fn closed(path: &Path) -> Self {
        Self::new(Class::ClosedError, "closed", "the model is closed").at(path)
    }

    /// Adds the file that the error is about, unless it has one. The path precedes the message.
    pub(crate) fn at(mut self, path: &Path) -> Self {
        if let Self::Refused(refusal) = &mut self
            && refusal.path.is_none()
        {
            refusal.path = Some(path.to_owned());
            let shown = ggmill::display_path(path);
            refusal.message = format!("{shown}: {}", refusal.message);
        }
        self
    }

    /// Adds the metadata key that the error is about, unless it has a subject.
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
            let Refusal { class, message, kind, offset, subject, path, errno } = refusal;
            let path = path.map(PathBuf::into_os_string);
            let errors = py.import("ggmill._errors")?;
            let class = errors.getattr(format!("{class:?}"))?;
            let arguments = (class, message, kind, offset, subject, path, errno);
            Ok(PyErr::from_value(errors.getattr("error_of")?.call1(arguments)?))
        })
        .unwrap_or_else(|error| error)
    }
}

/// A key or tensor as messages show it: `key "general.alignment"`.
fn subject(subject: Subject<'_>) -> String {
    match subject {
        Subject::Key(key) => format!("key {key:?}"),
        Subject::Tensor(name) => format!("tensor {name:?}"),
        _ => String::new(),
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

impl From<ggmill::Error> for Failure {
    fn from(error: ggmill::Error) -> Self {
        let key = error.key().map(Subject::Key);
        let about = key.or(error.tensor().map(Subject::Tensor)).map(subject);
        Self::Refused(Box::new(Refusal {
            class: Class::of(&error),
            message: error.to_string(),
            kind: error.kind_name().to_owned(),
            offset: error.offset(),
            subject: about,
            path: error.path().map(Path::to_owned),
            errno: error.os_code(),
        }))
    }
}

impl From<template::Error> for Failure {
    fn from(error: template::Error) -> Self {
        let mut failure = Self::from(ggmill::Error::from(error));
        if let Self::Refused(refusal) = &mut failure {
            // A template can raise an error with any text.
            refusal.message = RawStr::from(&*refusal.message).to_string();
        }
        failure
    }
}

/// Converts errors of the crates below `ggmill`, which the library classifies.
macro_rules! from_library_errors {
    ($($error:ty,)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                ggmill::Error::from(error).into()
            }
        }
    )*};
}

from_library_errors! {
    ggmill::arch::Error,
    ggmill::core::Error,
    ggmill::estimate::Error,
    ggmill::io::Error,
    ggmill::pipeline::Error,
    ggmill::quant::Error,
    ggmill::run::Error,
    ggmill::tokenizer::Error,
    std::io::Error,
}

//! Errors in a vocabulary or a text.

use std::fmt;

/// Why a tokenizer could not be made or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A metadata key that the vocabulary needs is missing.
    Missing,
    /// A metadata key has a value of another type.
    WrongType,
    /// `tokenizer.ggml.model` is none that this crate knows.
    UnknownModel,
    /// `tokenizer.ggml.pre` is none that this crate knows.
    UnknownPreTokenizer,
    /// An array has fewer elements than there are tokens.
    WrongLength,
    /// Two tokens have the same text.
    DuplicateToken,
    /// The entries contradict each other, or the data of one are damaged.
    Malformed,
    /// Beyond what this crate supports, or beyond the memory there is.
    Limit,
    /// The file says that it has no tokenizer.
    NoTokenizer,
    /// No such token.
    NoSuchToken,
}

impl ErrorKind {
    /// The name of the kind, in lower case with `_`, which does not change: `no_such_token`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::WrongType => "wrong_type",
            Self::UnknownModel => "unknown_model",
            Self::UnknownPreTokenizer => "unknown_pre_tokenizer",
            Self::WrongLength => "wrong_length",
            Self::DuplicateToken => "duplicate_token",
            Self::Malformed => "malformed",
            Self::Limit => "limit",
            Self::NoTokenizer => "no_tokenizer",
            Self::NoSuchToken => "no_such_token",
        }
    }
}

/// An error with its kind and the metadata key it is about.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    key: Option<&'static str>,
    message: String,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, key: None, message: message.into() }
    }

    #[cold]
    pub(crate) fn at(kind: ErrorKind, key: &'static str, message: impl Into<String>) -> Self {
        Self { kind, key: Some(key), message: message.into() }
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The metadata key the error is about, where there is one.
    pub fn key(&self) -> Option<&'static str> {
        self.key
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = self.key {
            write!(f, "key {key:?}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

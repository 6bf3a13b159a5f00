//! Errors.

use std::fmt;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A required metadata key is missing.
    Missing,
    /// A metadata value has the wrong type.
    WrongType,
    /// `tokenizer.ggml.model` is unknown.
    UnknownModel,
    /// `tokenizer.ggml.pre` is unknown.
    UnknownPreTokenizer,
    /// An array has fewer elements than there are tokens.
    WrongLength,
    /// Two tokens have the same text.
    DuplicateToken,
    /// The data are malformed or contradict each other.
    Malformed,
    /// The data are not supported, or exceed a limit or the available memory.
    Limit,
    /// The file states that it has no tokenizer.
    NoTokenizer,
    /// There is no token with this ID.
    NoSuchToken,
}

impl ErrorKind {
    /// Returns the stable name of the kind in lower case, such as `no_such_token`.
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

/// An error in a vocabulary or a text.
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

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the metadata key that the error is about.
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

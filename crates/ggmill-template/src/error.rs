//! Errors of parsing and rendering.

use std::fmt;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The template does not parse.
    Syntax,
    /// The template rejects the conversation by `raise_exception`.
    Refused,
    /// An undefined value is used.
    Undefined,
    /// A value has a type or a size that an operation does not support.
    Value,
    /// The sandbox refuses the operation, like that of transformers.
    Security,
    /// Too many steps, or too much memory.
    Limit,
    /// A feature of Jinja that chat templates do not use.
    Unsupported,
    /// The document is not a conversation.
    Conversation,
    /// A document has no template.
    Missing,
}

impl ErrorKind {
    /// Returns the stable name of the kind, in snake case: `undefined`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Refused => "refused",
            Self::Undefined => "undefined",
            Self::Value => "value",
            Self::Security => "security",
            Self::Limit => "limit",
            Self::Unsupported => "unsupported",
            Self::Conversation => "conversation",
            Self::Missing => "missing",
        }
    }
}

/// An error of parsing or rendering, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    line: Option<u32>,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), line: None }
    }

    pub(crate) fn value(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Value, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Sets the line unless it is already known.
    pub(crate) fn at(mut self, line: u32) -> Self {
        self.line.get_or_insert(line);
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the message without the line. For [`ErrorKind::Refused`], it is the template's
    /// message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the line of the template, starting at 1.
    pub fn line(&self) -> Option<u32> {
        self.line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match self.kind {
            ErrorKind::Syntax => write!(f, "the template does not parse: {}", self.message),
            ErrorKind::Refused => {
                write!(f, "the template rejects the conversation: {}", self.message)
            }
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

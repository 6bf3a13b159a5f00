//! Errors while a template is rendered.

use std::fmt;

/// Why a template was not rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The template does not parse.
    Syntax,
    /// The template itself refuses the conversation, by `raise_exception`.
    Refused,
    /// Something that does not exist is used as if it did.
    Undefined,
    /// A value has a type or a size that an operation does not take.
    Value,
    /// The sandbox refuses the operation, as that of transformers does.
    Security,
    /// Too many steps, or too much memory.
    Limit,
    /// A feature of Jinja that chat templates do not use.
    Unsupported,
    /// The conversation is not one.
    Conversation,
    /// A document has no template.
    Missing,
}

impl ErrorKind {
    /// The name of the kind, in lower case with `_`, which does not change: `undefined`.
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

/// A template that was not rendered, and where.
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

    /// With the line, where none is known yet.
    pub(crate) fn at(mut self, line: u32) -> Self {
        self.line.get_or_insert(line);
        self
    }

    /// Why.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message, without the line. For [`ErrorKind::Refused`] it is the template's own.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The line of the template, from 1.
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

//! Errors in a description, in the configuration it is applied to, or between the two.

use core::fmt;

use ggmill_core::{RawStr, printable};

use crate::spelling::near_part;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The kind of an error, by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The description contradicts itself or the schema.
    Description,
    /// The configuration lacks a required value, or has an invalid one.
    Configuration,
    /// No description covers this checkpoint.
    Unknown,
    /// A description covers the checkpoint and excludes it, for the reason in the message.
    Unsupported,
    /// A limit on the size of a description or model is exceeded: too many tensors, names or
    /// dimensions.
    Limit,
}

impl ErrorKind {
    /// Returns the stable name of the kind, in lower case with `_`, such as `configuration`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::Configuration => "configuration",
            Self::Unknown => "unknown",
            Self::Unsupported => "unsupported",
            Self::Limit => "limit",
        }
    }
}

/// The subject of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject<'a> {
    /// The hyperparameter with this name.
    Parameter(RawStr<'a>),
    /// The metadata key with this name.
    Key(RawStr<'a>),
    /// The tensor with this name or name pattern.
    Tensor(RawStr<'a>),
}

/// An error with its kind, the architecture, and the hyperparameter, key or tensor that it is about;
/// pointer-sized.
///
/// ```
/// use ggmill_arch::{Architecture, ErrorKind};
/// let llama = Architecture::builtin("llama").ok_or("built in")?;
/// let error = llama.resolve(&serde_json::json!({ "hidden_size": 64 })).err().ok_or("an error")?;
/// assert_eq!(error.kind(), ErrorKind::Configuration);
/// assert!(error.to_string().starts_with("architecture \"llama\", hyperparameter \"block_count\": missing"));
/// # Ok::<(), &str>(())
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    architecture: Option<Box<str>>,
    subject: Option<(SubjectKind, Box<str>)>,
    /// The unknown name, if the error is about one.
    unknown: Option<Box<str>>,
    /// The line and column in the text of the description, from 1.
    place: Option<(usize, usize)>,
    message: String,
}

#[derive(Clone, Copy)]
pub(crate) enum SubjectKind {
    Parameter,
    Key,
    Tensor,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            architecture: None,
            subject: None,
            unknown: None,
            place: None,
            message: printable(&message.into()).into_owned(),
        }))
    }

    #[cold]
    pub(crate) fn description(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Description, message)
    }

    #[cold]
    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Configuration, message)
    }

    /// Returns an error about a name that is not a hyperparameter, for
    /// [`with_nearest`](Self::with_nearest).
    #[cold]
    pub(crate) fn unknown_name(name: &str, message: String) -> Self {
        let mut error = Self::description(message);
        error.0.unknown = Some(shortened(name));
        error
    }

    /// Appends the most similar of `names`, if the error is about an unknown name.
    #[must_use]
    pub(crate) fn with_nearest<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let near = self.0.unknown.as_deref().and_then(|unknown| near_part(unknown, names));
        if let Some(near) = near {
            self.0.message.push_str("; did you mean ");
            self.0.message.push_str(&near);
            self.0.message.push('?');
        }
        self
    }

    /// Adds the line and column of the expression or the subject, if it is found in the text of the
    /// description.
    #[must_use]
    pub(crate) fn placed(mut self, toml: &str) -> Self {
        let subject = self.0.subject.as_ref().and_then(|(_, name)| definition(toml, name));
        let quoted = self.0.message.split_once("expression \"").map(|(_, rest)| rest);
        let expression = quoted.and_then(|rest| rest.split('"').next());
        let start = subject.unwrap_or(0);
        let expression = expression.filter(|text| !text.is_empty());
        let expression = expression.and_then(|text| whole_words(toml, start, text));
        self.0.place = expression.or(subject).map(|at| line_and_column(toml, at));
        self
    }

    /// Sets the subject, unless an inner error has set it.
    #[must_use]
    pub(crate) fn about(mut self, kind: SubjectKind, name: &str) -> Self {
        self.0.subject.get_or_insert_with(|| (kind, shortened(name)));
        self
    }

    /// Sets the architecture, unless an inner error has set it.
    #[must_use]
    pub(crate) fn within(mut self, architecture: &str) -> Self {
        self.0.architecture.get_or_insert_with(|| shortened(architecture));
        self
    }

    /// Prepends a location within the subject to the message, such as `shape: `.
    #[must_use]
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.0.message.insert_str(0, ": ");
        self.0.message.insert_str(0, place);
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the architecture whose description was parsed or applied.
    pub fn architecture(&self) -> Option<RawStr<'_>> {
        self.0.architecture.as_deref().map(RawStr::from)
    }

    /// Returns the hyperparameter, key or tensor that the error is about.
    pub fn subject(&self) -> Option<Subject<'_>> {
        self.0.subject.as_ref().map(|(kind, name)| match kind {
            SubjectKind::Parameter => Subject::Parameter(RawStr::from(&**name)),
            SubjectKind::Key => Subject::Key(RawStr::from(&**name)),
            SubjectKind::Tensor => Subject::Tensor(RawStr::from(&**name)),
        })
    }
}

/// Returns the byte offset at which a description defines a hyperparameter, key or tensor: a line that
/// begins with its name, or the header of its table.
fn definition(toml: &str, name: &str) -> Option<usize> {
    let mut start = 0;
    for line in toml.split_inclusive('\n') {
        let text = line.trim_start().trim_start_matches('[');
        let text = text.rsplit_once("tensor.").map_or(text, |(_, rest)| rest);
        let text = text.strip_prefix("parameters.").or(text.strip_prefix("keys.")).unwrap_or(text);
        let rest = text.trim_start_matches('"').strip_prefix(name);
        if rest.is_some_and(|rest| rest.trim_start_matches(['"', ' ']).starts_with(['=', ']', '.']))
        {
            return Some(start);
        }
        start = start.saturating_add(line.len());
    }
    None
}

/// Returns the byte offset of `words` in a text from `start` on, but not within a longer word.
fn whole_words(text: &str, start: usize, words: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let rest = text.get(start..)?;
    let found = rest.match_indices(words).find(|(at, _)| {
        let (before, after) = (rest.get(..*at), rest.get(at.saturating_add(words.len())..));
        !before.is_some_and(|before| before.ends_with(is_word))
            && !after.is_some_and(|after| after.starts_with(is_word))
    });
    found.map(|(at, _)| start.saturating_add(at))
}

/// Returns the line and column of a byte offset, both from 1.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count().saturating_add(1);
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count().saturating_add(1);
    (line, column)
}

/// Truncates a name to at most 256 bytes, for messages.
pub(crate) fn shortened(name: &str) -> Box<str> {
    const MAX_LEN: usize = 256;
    let end =
        (0..=MAX_LEN.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    name.get(..end).unwrap_or_default().into()
}

/// Returns text from a file for a message: truncated, escaped, and in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", RawStr::from(&*shortened(text)))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some((line, column)) = self.0.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        if let Some(architecture) = self.architecture() {
            write!(f, "architecture {architecture:?}")?;
            separator = ", ";
        }
        if let Some(subject) = self.subject() {
            f.write_str(separator)?;
            match subject {
                Subject::Parameter(name) => write!(f, "hyperparameter {name:?}")?,
                Subject::Key(name) => write!(f, "key {name:?}")?,
                Subject::Tensor(name) => write!(f, "tensor {name:?}")?,
            }
            separator = ", ";
        }
        f.write_str(if separator.is_empty() { "" } else { ": " })?;
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl core::error::Error for Error {}

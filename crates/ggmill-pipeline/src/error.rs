//! Errors of sources, recipes, plans and runs.

use std::fmt;
use std::path::{Path, PathBuf};

use ggmill_core::RawStr;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be opened, read or written.
    Io,
    /// A file is truncated, such as an incomplete download.
    Truncated,
    /// Another program wrote to a source file after it was opened, or an edit of it was
    /// interrupted, so the bytes read may mix old and new content.
    Changed,
    /// The checkpoint is invalid or incomplete.
    Checkpoint,
    /// No architecture description matches the checkpoint, or the checkpoint lacks something that
    /// the description requires.
    Architecture,
    /// Valid, but not supported by this version.
    Unsupported,
    /// The checkpoint has a setting that the file cannot express, and programs assume another value.
    Setting,
    /// A tensor has values that the requested type cannot represent: NaN, infinity, out of range.
    NonFinite,
    /// A type cannot represent finite values of a tensor, which are too large or too small.
    Range,
    /// Every value of a tensor would become zero in the requested type.
    Zeros,
    /// Importance weights are missing for a type that requires them, do not fit, or cannot be read.
    Importance,
    /// An importance matrix has no weights for tensors whose types require them.
    ImportanceEntry,
    /// A tensor is already quantized, and requantization was not requested.
    Quantized,
    /// No choice of types reaches the requested size.
    Budget,
    /// A list of types does not match the model.
    Types,
    /// There is not enough memory for a single row.
    Memory,
    /// The pre-tokenizer of a vocabulary is unknown.
    PreTokenizer,
    /// A vocabulary is invalid, or has no equivalent in the target format.
    Vocabulary,
    /// The caller cancelled the run.
    Cancelled,
    /// An edit names a key or tensor that the file lacks, a value out of range of its type, or a
    /// change that would make the file invalid.
    Edit,
    /// The caller passed invalid arguments.
    Misuse,
}

impl ErrorKind {
    /// Returns the stable name of the kind in snake case, such as `non_finite`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Truncated => "truncated",
            Self::Changed => "changed",
            Self::Checkpoint => "checkpoint",
            Self::Architecture => "architecture",
            Self::Unsupported => "unsupported",
            Self::Setting => "setting",
            Self::NonFinite => "non_finite",
            Self::Range => "range",
            Self::Zeros => "zeros",
            Self::Importance => "importance",
            Self::ImportanceEntry => "importance_entry",
            Self::Quantized => "quantized",
            Self::Budget => "budget",
            Self::Types => "types",
            Self::Memory => "memory",
            Self::PreTokenizer => "pre_tokenizer",
            Self::Vocabulary => "vocabulary",
            Self::Cancelled => "cancelled",
            Self::Edit => "edit",
            Self::Misuse => "misuse",
        }
    }
}

/// An error with its kind, its subject (a file, tensor or key) and a message. It is as small as a
/// pointer.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    subject: String,
    named: Option<Named>,
    path: Option<PathBuf>,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The name of a tensor or a key that an error is about.
enum Named {
    Tensor(Vec<u8>),
    Key(Vec<u8>),
}

impl Error {
    /// Creates an error.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            subject: String::new(),
            named: None,
            path: None,
            message: message.into(),
            source: None,
        }))
    }

    /// Wraps another error and takes over its message.
    #[cold]
    pub fn caused(kind: ErrorKind, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(Inner {
            kind,
            subject: String::new(),
            named: None,
            path: None,
            message: source.to_string(),
            source: Some(Box::new(source)),
        }))
    }

    /// Sets the subject, unless it is already set.
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        if self.0.subject.is_empty() {
            self.0.subject = subject.into();
        }
        self
    }

    /// Sets a tensor as the subject, unless one is already set.
    #[must_use]
    pub fn tensor(mut self, name: impl AsRef<[u8]>) -> Self {
        let name = name.as_ref();
        self.0.named.get_or_insert_with(|| Named::Tensor(name.to_vec()));
        self.about(format!("tensor {:?}", RawStr::new(name)))
    }

    /// Sets a metadata key as the subject, unless one is already set.
    #[must_use]
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        let key = key.as_ref();
        self.0.named.get_or_insert_with(|| Named::Key(key.to_vec()));
        self.about(format!("key {:?}", RawStr::new(key)))
    }

    /// Sets the path, and the file as the subject, unless they are already set.
    #[must_use]
    pub fn file(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_owned());
        self.about(shown(path))
    }

    /// Replaces the kind, such as that of an auxiliary file's error by what it means to the caller.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Returns the wrapped error, if there is one. Its message is the message of this error.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.source.as_deref()
    }

    /// Returns the name of the tensor the error is about.
    pub fn tensor_name(&self) -> Option<&[u8]> {
        match &self.0.named {
            Some(Named::Tensor(name)) => Some(name),
            _ => None,
        }
    }

    /// Returns the metadata key the error is about.
    pub fn key_name(&self) -> Option<&[u8]> {
        match &self.0.named {
            Some(Named::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the path of the file, if the error concerns one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the file, tensor or key that the error concerns; empty if none.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }
}

/// Returns a path escaped for display.
fn shown(path: &Path) -> String {
    RawStr::new(path.as_os_str().as_encoded_bytes()).to_string()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.subject.is_empty() {
            // The subject can be a tensor or key; then the path precedes it.
            if let Some(path) = &self.0.path {
                let path = shown(path);
                if path != self.0.subject {
                    write!(f, "{path}: ")?;
                }
            }
            write!(f, "{}: ", self.0.subject)?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The message is that of the cause, so the chain continues with the source of the cause.
        self.cause()?.source()
    }
}

impl From<ggmill_io::Error> for Error {
    fn from(error: ggmill_io::Error) -> Self {
        let kind = match error.kind() {
            ggmill_io::ErrorKind::Format(kind) => kind_of(kind),
            ggmill_io::ErrorKind::Changed | ggmill_io::ErrorKind::Journal => ErrorKind::Changed,
            ggmill_io::ErrorKind::Shards => ErrorKind::Checkpoint,
            ggmill_io::ErrorKind::Misuse => ErrorKind::Misuse,
            _ => ErrorKind::Io,
        };
        let path = error.path().to_owned();
        let mut this = Self::caused(kind, error);
        this.0.path = Some(path);
        this
    }
}

impl From<ggmill_core::Error> for Error {
    fn from(error: ggmill_core::Error) -> Self {
        let kind = kind_of(error.kind());
        match error
            .into_cause()
            .map(<dyn std::error::Error + Send + Sync>::downcast::<ggmill_io::Error>)
        {
            Ok(Ok(error)) => Self::from(*error),
            Ok(Err(cause)) => Self(Box::new(Inner {
                kind,
                subject: String::new(),
                named: None,
                path: None,
                message: cause.to_string(),
                source: Some(cause),
            })),
            Err(error) => Self::caused(kind, error),
        }
    }
}

/// Maps the kind of a reader's error.
fn kind_of(kind: ggmill_core::ErrorKind) -> ErrorKind {
    match kind {
        ggmill_core::ErrorKind::Truncated => ErrorKind::Truncated,
        ggmill_core::ErrorKind::Changed => ErrorKind::Changed,
        ggmill_core::ErrorKind::Unsupported => ErrorKind::Unsupported,
        ggmill_core::ErrorKind::Misuse => ErrorKind::Misuse,
        ggmill_core::ErrorKind::Io => ErrorKind::Io,
        _ => ErrorKind::Checkpoint,
    }
}

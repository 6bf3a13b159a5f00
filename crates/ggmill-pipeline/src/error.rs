//! Errors between a checkpoint and a file.

use std::fmt;
use std::path::{Path, PathBuf};

use ggmill_core::RawStr;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a conversion failed, sorted by blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file of the checkpoint could not be opened, read or written.
    Io,
    /// A file of the checkpoint ends before it should: an incomplete download or copy.
    Truncated,
    /// Something else wrote to a file of the checkpoint after it was opened, or an edit of it was
    /// interrupted: what was read may be half of each.
    Changed,
    /// The checkpoint contradicts itself or is incomplete.
    Checkpoint,
    /// No architecture description fits the checkpoint, or the one that does asks for something the
    /// checkpoint lacks.
    Architecture,
    /// Well formed, but this version does not convert it.
    Unsupported,
    /// A tensor holds numbers that the type asked for cannot (NaN, infinity, too large or too
    /// small).
    NonFinite,
    /// Importance weights are missing where a type needs them, do not fit, or cannot be read.
    Importance,
    /// A tensor is quantized already, and quantizing it again was not asked for.
    Quantized,
    /// A size was asked for that no choice of types reaches.
    Budget,
    /// A list of types does not belong to the model.
    Types,
    /// Memory is short of what a single row takes.
    Memory,
    /// The pre-tokenizer of a vocabulary is not one that is known.
    PreTokenizer,
    /// A vocabulary contradicts itself, or has no form in what it is to become.
    Vocabulary,
    /// The caller asked for the run to stop.
    Cancelled,
    /// An edit asks for what the file does not have, for a value that its type cannot hold, or for
    /// what would break the file.
    Edit,
    /// The caller broke a rule of the interface.
    Misuse,
}

impl ErrorKind {
    /// The name of the kind, in lower case with `_`, which does not change: `non_finite`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Truncated => "truncated",
            Self::Changed => "changed",
            Self::Checkpoint => "checkpoint",
            Self::Architecture => "architecture",
            Self::Unsupported => "unsupported",
            Self::NonFinite => "non_finite",
            Self::Importance => "importance",
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

/// An error with its kind, what it is about (a file, a tensor) and what was found. The size of a
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
    /// An error of this kind with this message.
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

    /// An error that another one caused, whose message is the message.
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

    /// Sets the subject of the error, unless it is known already.
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        if self.0.subject.is_empty() {
            self.0.subject = subject.into();
        }
        self
    }

    /// The same for a tensor.
    #[must_use]
    pub fn tensor(mut self, name: impl AsRef<[u8]>) -> Self {
        let name = name.as_ref();
        self.0.named.get_or_insert_with(|| Named::Tensor(name.to_vec()));
        self.about(format!("tensor {:?}", RawStr::new(name)))
    }

    /// The same for a metadata key.
    #[must_use]
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        let key = key.as_ref();
        self.0.named.get_or_insert_with(|| Named::Key(key.to_vec()));
        self.about(format!("key {:?}", RawStr::new(key)))
    }

    /// The same for a file, whose path is kept.
    #[must_use]
    pub fn file(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_owned());
        self.about(shown(path))
    }

    /// Sets the kind: what a fault of a file that was asked for on the way means to the caller.
    #[must_use]
    pub fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The cause of the error, if another error caused it. The message is that of the cause.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.source.as_deref()
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file the error is about, where it is about one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
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

    /// The file or tensor the error is about; empty when it is about the whole.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }
}

/// A path escaped for display.
fn shown(path: &Path) -> String {
    RawStr::new(path.as_os_str().as_encoded_bytes()).to_string()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.subject.is_empty() {
            // Of a tensor or a key, also the file.
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
        // The message is that of the cause, so what comes next is what the cause came from.
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

/// The kind of a reader's error for the callers of this crate.
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

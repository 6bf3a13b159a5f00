//! The one error of this crate: what went wrong, where, and what could help.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

use ggmill_core::{RawStr, Subject};

use crate::hint::Hint;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call. It has the size of a pointer.
///
/// The predicates ([`is_not_found`](Self::is_not_found), …) sort errors by what a program can do
/// about them; the accessors say what the error is about. The message has the path, the tensor or
/// key and the offset in it already. [`source`](StdError::source) continues where the message ends,
/// so a program that prints the whole chain says everything once.
///
/// ```
/// let error = ggmill::Model::from_bytes(b"<!DOCTYPE html>.........".to_vec()).unwrap_err();
/// assert!(error.is_malformed());
/// assert_eq!(error.offset(), Some(0));
/// assert_eq!(error.to_string(), r#"offset 0x0: begins with "<!DO", expected "GGUF""#);
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    name: &'static str,
    message: String,
    path: Option<PathBuf>,
    subject: Option<OwnedSubject>,
    offset: Option<u64>,
    hint: Option<Hint>,
    os_code: Option<i32>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Debug)]
enum OwnedSubject {
    Key(Vec<u8>),
    Tensor(Vec<u8>),
}

/// The class of an error, which the predicates test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    NotFound,
    AlreadyExists,
    Denied,
    Malformed,
    Truncated,
    Unsupported,
    Refused,
    Cancelled,
    Changed,
    Limit,
    Io,
    Misuse,
}

impl Error {
    /// Returns an error without a source.
    #[cold]
    pub(crate) fn new(kind: Kind, name: &'static str, message: impl fmt::Display) -> Self {
        Self(Box::new(Inner {
            kind,
            name,
            message: message.to_string(),
            path: None,
            subject: None,
            offset: None,
            hint: None,
            os_code: None,
            source: None,
        }))
    }

    /// Returns an error about a wrong argument, or arguments that contradict each other.
    #[cold]
    pub(crate) fn misuse(message: impl fmt::Display) -> Self {
        Self::new(Kind::Misuse, "misuse", message)
    }

    /// Returns an error about an exceeded limit, or too little memory.
    #[cold]
    pub(crate) fn limit(message: impl fmt::Display) -> Self {
        Self::new(Kind::Limit, "limit", message)
    }

    /// Returns an error about invalid content of a file.
    #[cfg(feature = "files")]
    #[cold]
    pub(crate) fn malformed(message: impl fmt::Display) -> Self {
        Self::new(Kind::Malformed, "malformed", message)
    }

    /// Returns the error of a call that a progress callback cancelled.
    #[cfg(feature = "files")]
    #[cold]
    pub(crate) fn cancelled() -> Self {
        Self::new(Kind::Cancelled, "cancelled", "stopped on request")
    }

    /// Wraps another error, and takes its message and its source.
    #[cold]
    pub(crate) fn wrap(
        kind: Kind,
        name: &'static str,
        origin: impl StdError + Send + Sync + 'static,
    ) -> Self {
        let mut this = Self::new(kind, name, &origin);
        this.0.source = Some(Box::new(origin));
        this
    }

    /// Sets the file that the error is about, and puts it before the message, unless a file is set.
    #[must_use]
    pub(crate) fn at(mut self, path: &Path) -> Self {
        if self.0.path.is_none() {
            self.0.message = format!("{}: {}", crate::display_path(path), self.0.message);
            self.0.path = Some(path.to_owned());
        }
        self
    }

    /// Puts a path before the message, even if the error already has a file.
    #[cfg(feature = "files")]
    #[must_use]
    pub(crate) fn within(mut self, path: &Path) -> Self {
        self.0.message = format!("{}: {}", crate::display_path(path), self.0.message);
        self.0.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// Sets the key that the error is about, and puts it before the message.
    #[cfg(feature = "files")]
    #[must_use]
    pub(crate) fn about_key(mut self, key: &str) -> Self {
        self.0.message = format!("key {:?}: {}", RawStr::from(key), self.0.message);
        self.key_or_tensor(Some(Subject::Key(RawStr::from(key))))
    }

    /// Adds a hint, unless there is one.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<Option<Hint>>) -> Self {
        if self.0.hint.is_none() {
            self.0.hint = hint.into();
        }
        self
    }

    /// Replaces the hint.
    #[cfg(feature = "files")]
    #[must_use]
    pub(crate) fn replace_hint(mut self, hint: impl Into<Option<Hint>>) -> Self {
        self.0.hint = hint.into();
        self
    }

    fn key_or_tensor(mut self, subject: Option<Subject<'_>>) -> Self {
        self.0.subject = match subject {
            Some(Subject::Key(name)) => Some(OwnedSubject::Key(name.as_bytes().to_vec())),
            Some(Subject::Tensor(name)) => Some(OwnedSubject::Tensor(name.as_bytes().to_vec())),
            _ => self.0.subject,
        };
        self
    }

    /// Returns `true` if a file, a key, a tensor or a token does not exist.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == Kind::NotFound
    }

    /// Returns `true` if an output exists, and overwriting it was not allowed.
    pub fn is_already_exists(&self) -> bool {
        self.0.kind == Kind::AlreadyExists
    }

    /// Returns `true` if the system or a server denies access.
    pub fn is_denied(&self) -> bool {
        self.0.kind == Kind::Denied
    }

    /// Returns `true` if the content of a file is invalid: not in the expected format, or inconsistent.
    pub fn is_malformed(&self) -> bool {
        self.0.kind == Kind::Malformed
    }

    /// Returns `true` if a file ends too early, as after an incomplete download.
    pub fn is_truncated(&self) -> bool {
        self.0.kind == Kind::Truncated
    }

    /// Returns `true` if the input is valid, and this version does not support it.
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == Kind::Unsupported
    }

    /// Returns `true` if the result would be useless or would lose data, and no option allows it;
    /// [`hint`](Self::hint) names the option.
    pub fn is_refused(&self) -> bool {
        self.0.kind == Kind::Refused
    }

    /// Returns `true` if a progress callback ended the work.
    pub fn is_cancelled(&self) -> bool {
        self.0.kind == Kind::Cancelled
    }

    /// Returns `true` if another program changed a file while it was read, or an edit of it was
    /// interrupted.
    pub fn is_changed(&self) -> bool {
        self.0.kind == Kind::Changed
    }

    /// Returns `true` if a limit was exceeded, or there is too little memory.
    pub fn is_limit(&self) -> bool {
        self.0.kind == Kind::Limit
    }

    /// Returns `true` if the system or the network failed in another way.
    pub fn is_io(&self) -> bool {
        self.0.kind == Kind::Io
    }

    /// Returns `true` if an argument is wrong, or arguments contradict each other.
    pub fn is_misuse(&self) -> bool {
        self.0.kind == Kind::Misuse
    }

    /// Returns the file the error is about. A remote file has its address as its path.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the metadata key the error is about.
    pub fn key(&self) -> Option<RawStr<'_>> {
        match &self.0.subject {
            Some(OwnedSubject::Key(key)) => Some(RawStr::new(key)),
            _ => None,
        }
    }

    /// Returns the name of the tensor the error is about.
    pub fn tensor(&self) -> Option<RawStr<'_>> {
        match &self.0.subject {
            Some(OwnedSubject::Tensor(name)) => Some(RawStr::new(name)),
            _ => None,
        }
    }

    /// Returns the offset in the file, in bytes from its beginning.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns advice, which a program can word in its own terms; its [`Display`](fmt::Display) uses
    /// the terms of this crate.
    pub fn hint(&self) -> Option<&Hint> {
        self.0.hint.as_ref()
    }

    /// Returns the error code of the operating system.
    pub fn os_code(&self) -> Option<i32> {
        self.0.os_code
    }

    /// Returns the stable name of the cause, in lower case with `_`, such as `non_finite`. It is
    /// finer than the predicates.
    pub fn kind_name(&self) -> &'static str {
        self.0.name
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The message of the wrapped error is printed already, so the chain continues with its source.
        self.0.source.as_deref()?.source()
    }
}

fn of_format(kind: ggmill_core::ErrorKind) -> Kind {
    use ggmill_core::ErrorKind as K;
    match kind {
        K::Truncated => Kind::Truncated,
        K::Limit => Kind::Limit,
        K::Version | K::Unsupported => Kind::Unsupported,
        K::Missing => Kind::NotFound,
        K::Misuse => Kind::Misuse,
        K::Io => Kind::Io,
        K::Changed => Kind::Changed,
        _ => Kind::Malformed,
    }
}

impl From<ggmill_core::Error> for Error {
    fn from(error: ggmill_core::Error) -> Self {
        let kind = error.kind();
        match error.into_cause() {
            Ok(cause) => of_cause(kind, cause),
            Err(error) => {
                let (offset, subject) = (error.offset(), error.subject());
                let mut this =
                    Self::new(of_format(kind), kind.name(), &error).key_or_tensor(subject);
                this.0.offset = offset;
                this.0.source = Some(Box::new(error));
                this
            }
        }
    }
}

/// Converts the error of a [`ReadAt`](ggmill_core::ReadAt): the error of a file or a server keeps its
/// path and kind.
fn of_cause(kind: ggmill_core::ErrorKind, cause: Box<dyn StdError + Send + Sync>) -> Error {
    #[cfg(feature = "files")]
    let cause = match cause.downcast::<ggmill_io::Error>() {
        Ok(error) => return Error::from(*error),
        Err(cause) => cause,
    };
    #[cfg(feature = "remote")]
    let cause = match cause.downcast::<ggmill_remote::Error>() {
        Ok(error) => return Error::from(*error),
        Err(cause) => cause,
    };
    let mut this = Error::new(of_format(kind), kind.name(), &cause);
    this.0.source = Some(cause);
    this
}

impl From<ggmill_quant::Error> for Error {
    fn from(error: ggmill_quant::Error) -> Self {
        use ggmill_quant::ErrorKind as K;
        let (kind, hint) = match error.kind() {
            K::Unsupported => (Kind::Unsupported, None),
            K::Read(kind) => (of_format(kind), None),
            K::NeedsWeights => (Kind::Refused, Some(Hint::ImportanceMatrix)),
            K::NonFinite { .. } | K::OutOfRange { .. } => (Kind::Refused, Some(Hint::CheckData)),
            K::NonFiniteWeight { .. } => (Kind::Refused, None),
            _ => (Kind::Misuse, None),
        };
        let name = error.kind().name();
        Self::wrap(kind, name, error).with_hint(hint)
    }
}

impl From<ggmill_arch::Error> for Error {
    fn from(error: ggmill_arch::Error) -> Self {
        use ggmill_arch::{ErrorKind as K, Subject as S};
        let kind = match error.kind() {
            K::Description | K::Configuration => Kind::Malformed,
            K::Limit => Kind::Limit,
            _ => Kind::Unsupported,
        };
        let hint = (error.kind() == K::Unknown).then_some(Hint::DescribeArchitecture);
        let subject = match error.subject() {
            Some(S::Key(name)) => Some(OwnedSubject::Key(name.as_bytes().to_vec())),
            Some(S::Tensor(name)) => Some(OwnedSubject::Tensor(name.as_bytes().to_vec())),
            _ => None,
        };
        let mut this = Self::wrap(kind, "architecture", error).with_hint(hint);
        this.0.subject = subject;
        this
    }
}

impl From<ggmill_tokenizer::Error> for Error {
    fn from(error: ggmill_tokenizer::Error) -> Self {
        use ggmill_tokenizer::ErrorKind as K;
        let (kind, hint) = match error.kind() {
            K::Missing => (Kind::NotFound, Some(Hint::NoVocabulary)),
            K::NoSuchToken => (Kind::NotFound, None),
            K::UnknownPreTokenizer => (Kind::Unsupported, Some(Hint::OtherPreTokenizer)),
            K::UnknownModel | K::NoTokenizer => (Kind::Unsupported, None),
            K::Limit => (Kind::Limit, None),
            _ => (Kind::Malformed, None),
        };
        let (key, name) = (error.key(), error.kind().name());
        Self::wrap(kind, name, error)
            .with_hint(hint)
            .key_or_tensor(key.map(|key| Subject::Key(RawStr::from(key))))
    }
}

impl From<ggmill_template::Error> for Error {
    fn from(error: ggmill_template::Error) -> Self {
        use ggmill_template::ErrorKind as K;
        let kind = match error.kind() {
            K::Refused | K::Security => Kind::Refused,
            K::Limit => Kind::Limit,
            K::Unsupported => Kind::Unsupported,
            K::Conversation => Kind::Misuse,
            K::Missing => Kind::NotFound,
            _ => Kind::Malformed,
        };
        // A template can raise an error with any text, so control characters are escaped.
        let message = RawStr::from(&*error.to_string()).to_string();
        let mut this = Self::wrap(kind, error.kind().name(), error);
        this.0.message = message;
        this
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let (kind, code) = (of_system(&error), error.raw_os_error());
        let mut this = Self::wrap(kind, "io", error);
        this.0.os_code = code;
        this
    }
}

fn of_system(error: &std::io::Error) -> Kind {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Kind::NotFound,
        std::io::ErrorKind::PermissionDenied => Kind::Denied,
        _ => Kind::Io,
    }
}

/// Converts error types all of whose kinds belong to one class.
macro_rules! of_class {
    ($($error:ty => $kind:ident, $name:literal;)*) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::wrap(Kind::$kind, $name, error)
            }
        }
    )*};
}

of_class! {
    ggmill_core::NamingError => Malformed, "naming";
    ggmill_check::ProfileError => Misuse, "misuse";
    ggmill_check::SelectorError => Misuse, "misuse";
    ggmill_estimate::Error => Misuse, "misuse";
    ggmill_inspect::RawValueError => Unsupported, "unsupported";
    ggmill_text::GlobError => Misuse, "misuse";
}

#[cfg(feature = "files")]
mod files {
    use ggmill_edit::EditError;

    use super::{Error, Hint, Kind, OwnedSubject, StdError, of_format, of_system};

    impl From<ggmill_io::Error> for Error {
        fn from(error: ggmill_io::Error) -> Self {
            use ggmill_io::ErrorKind as K;
            let (kind, hint) = match error.kind() {
                K::Io => (error.io_error().map_or(Kind::Io, of_system), None),
                K::Changed => (Kind::Changed, None),
                K::Exists => (Kind::AlreadyExists, Some(Hint::Overwrite)),
                K::NotEditable => (Kind::Refused, None),
                K::Journal => (Kind::Changed, error.is_pending().then_some(Hint::Recover)),
                K::Format(kind) => (of_format(kind), None),
                K::Misuse => (Kind::Misuse, None),
                _ => (Kind::Malformed, None),
            };
            let (offset, path) = (error.offset(), error.path().to_owned());
            let mut this = Self::new(kind, error.kind().name(), &error)
                .with_hint(hint)
                .key_or_tensor(error.subject());
            this.0.os_code = error.io_error().and_then(std::io::Error::raw_os_error);
            (this.0.offset, this.0.path) = (offset, Some(path));
            this.0.source = Some(Box::new(error));
            this
        }
    }

    impl From<ggmill_pipeline::Error> for Error {
        fn from(error: ggmill_pipeline::Error) -> Self {
            use ggmill_pipeline::ErrorKind as K;
            let (mut kind, hint) = match error.kind() {
                K::Io => (Kind::Io, None),
                K::Truncated => (Kind::Truncated, None),
                K::Changed => (Kind::Changed, None),
                K::Checkpoint | K::Types => (Kind::Malformed, None),
                K::Vocabulary => (Kind::Malformed, Some(Hint::OmitVocabulary)),
                K::Architecture | K::Unsupported => (Kind::Unsupported, None),
                K::Setting => (Kind::Unsupported, Some(Hint::AssumeDefaults)),
                K::PreTokenizer => (Kind::Unsupported, Some(Hint::NamePreTokenizer)),
                K::NonFinite | K::Range => (Kind::Refused, Some(Hint::CheckData)),
                K::ImportanceEntry => (Kind::Refused, Some(Hint::TypeWithoutImportance)),
                K::Zeros => (Kind::Refused, Some(Hint::AllowZeros)),
                K::Importance => (Kind::Refused, Some(Hint::ImportanceMatrix)),
                K::Quantized => (Kind::Refused, Some(Hint::AllowRequantize)),
                K::Budget | K::Edit => (Kind::Refused, None),
                K::Memory => (Kind::Limit, None),
                K::Cancelled => (Kind::Cancelled, None),
                _ => (Kind::Misuse, None),
            };
            let mut this = Self::new(kind, error.kind().name(), &error).with_hint(hint);
            this.0.path = error.path().map(ToOwned::to_owned);
            this.0.subject = error
                .tensor_name()
                .map(|name| OwnedSubject::Tensor(name.to_vec()))
                .or(error.key_name().map(|name| OwnedSubject::Key(name.to_vec())));
            let cause = error.cause().map(|cause| cause as &(dyn StdError + 'static));
            if let Some(cause) = cause.and_then(|cause| cause.downcast_ref::<ggmill_io::Error>()) {
                if kind == Kind::Io {
                    kind = match cause.kind() {
                        ggmill_io::ErrorKind::Exists => Kind::AlreadyExists,
                        ggmill_io::ErrorKind::NotEditable => Kind::Refused,
                        _ => cause.io_error().map_or(Kind::Io, of_system),
                    };
                }
                this.0.name = cause.kind().name();
                this.0.offset = cause.offset();
                this.0.os_code = cause.io_error().and_then(std::io::Error::raw_os_error);
                if this.0.subject.is_none() {
                    this = this.key_or_tensor(cause.subject());
                }
            } else if let Some(cause) =
                cause.and_then(|cause| cause.downcast_ref::<ggmill_core::Error>())
            {
                this.0.offset = cause.offset();
                if this.0.subject.is_none() {
                    this = this.key_or_tensor(cause.subject());
                }
            }
            this.0.kind = kind;
            this.0.source = Some(Box::new(error));
            this
        }
    }

    impl Error {
        /// Converts the error of an edit, in place or into a copy, and adds hints about editing.
        pub(crate) fn of_edit(error: ggmill_pipeline::Error) -> Self {
            let cause = error.cause().map(|cause| cause as &(dyn StdError + 'static));
            if let Some(cause) = cause.and_then(|cause| cause.downcast_ref::<ggmill_io::Error>()) {
                // Its message has the path, which the message of the pipeline would repeat.
                let (hint, message) = (edit_hint(cause), cause.to_string());
                let mut this = Self::from(error).replace_hint(hint);
                this.0.message = message;
                return this;
            }
            let hint = match cause.and_then(|cause| cause.downcast_ref::<EditError>()) {
                Some(EditError::Filler) => Some(Hint::RemovePadding),
                Some(
                    EditError::NoSuchToken { key, .. } | EditError::AmbiguousToken { key, .. },
                ) => Some(Hint::TokenByNumber(key)),
                _ => None,
            };
            Self::from(error).replace_hint(hint)
        }

        /// Converts the error of recovering a file.
        pub(crate) fn of_recovery(error: ggmill_io::Error) -> Self {
            let hint = edit_hint(&error);
            Self::from(error).replace_hint(hint)
        }
    }

    fn edit_hint(error: &ggmill_io::Error) -> Option<Hint> {
        use ggmill_io::ErrorKind as K;
        match error.kind() {
            K::NotEditable => {
                let found = std::fs::symlink_metadata(error.path());
                Some(Hint::EditCopy(found.is_ok_and(|found| found.is_symlink())))
            }
            _ if error.io_error().is_some_and(|cause| {
                // The name of the journal is longer than that of the file.
                cause.kind() == std::io::ErrorKind::InvalidFilename
            }) =>
            {
                Some(Hint::EditCopy(false))
            }
            K::Journal if error.io_error().is_some() => Some(Hint::RecoverLater),
            K::Journal if error.is_pending() => Some(Hint::Recover),
            K::Journal => Some(Hint::DeleteJournal),
            _ => None,
        }
    }

    impl From<ggmill_run::Error> for Error {
        fn from(error: ggmill_run::Error) -> Self {
            use ggmill_run::ErrorKind as K;
            let (kind, hint) = match error.kind() {
                K::NoGraph | K::Graph => (Kind::Unsupported, None),
                K::Tensor | K::Read | K::Scores => (Kind::Malformed, None),
                K::NotFinite => (Kind::Refused, Some(Hint::CheckWeights)),
                K::TooShort => (Kind::Misuse, Some(Hint::SmallerChunks(None))),
                K::Chunks => (Kind::Misuse, Some(Hint::LargerChunks)),
                K::Memory => (Kind::Limit, Some(Hint::MoreMemory)),
                K::SourceVectors => (Kind::Unsupported, Some(Hint::SourceVectors)),
                K::DecoderStart => (Kind::Unsupported, Some(Hint::DecoderStart)),
                K::Vocabulary => (Kind::Misuse, Some(Hint::SameVocabulary)),
                K::Embeddings => (Kind::Misuse, Some(Hint::CompareEmbeddings)),
                K::Threads => (Kind::Io, None),
                _ => (Kind::Misuse, None),
            };
            let name = error.kind().name();
            Self::wrap(kind, name, error).with_hint(hint)
        }
    }

    impl From<ggmill_inspect::index::Error> for Error {
        fn from(error: ggmill_inspect::index::Error) -> Self {
            let (kind, code) = match &error {
                ggmill_inspect::index::Error::Write(error) => {
                    (of_system(error), error.raw_os_error())
                }
                ggmill_inspect::index::Error::Previous(_) => (Kind::Malformed, None),
                _ => (Kind::Unsupported, None),
            };
            let hint = (kind == Kind::Malformed).then_some(Hint::NewIndex);
            let mut this = Self::wrap(kind, "index", error).with_hint(hint);
            this.0.os_code = code;
            this
        }
    }

    impl From<ggmill_quantize::ResumeError> for Error {
        fn from(error: ggmill_quantize::ResumeError) -> Self {
            use ggmill_quantize::ResumeError as E;
            let hint = match &error {
                E::ChunkSize { found, .. } => Some(Hint::ChunkSize(*found)),
                E::Dataset { .. } => Some(Hint::MergeImatrices),
                E::Output { is_measured } => Some(Hint::SameMatrices(*is_measured)),
                _ => None,
            };
            Self::wrap(Kind::Refused, "resume", error).with_hint(hint)
        }
    }

    of_class! {
        ggmill_edit::EditSyntaxError => Misuse, "misuse";
        ggmill_edit::EditError => Refused, "edit";
        ggmill_edit::KeyTypeError => Misuse, "misuse";
        ggmill_edit::ValueError => Misuse, "misuse";
        ggmill_pipeline::PlanDocumentError => Malformed, "plan";
        ggmill_quantize::UnknownTarget => Misuse, "misuse";
    }
}

#[cfg(feature = "remote")]
impl From<ggmill_remote::Error> for Error {
    fn from(error: ggmill_remote::Error) -> Self {
        use ggmill_remote::ErrorKind as K;
        let kind = match error.kind() {
            K::Address => Kind::Misuse,
            K::NotFound => Kind::NotFound,
            K::Denied | K::Insecure => Kind::Denied,
            K::Changed => Kind::Changed,
            K::NoRanges => Kind::Unsupported,
            K::Shards => Kind::Malformed,
            K::Format(kind) => of_format(kind),
            _ => Kind::Io,
        };
        let format = error.format_error();
        let offset = format.and_then(ggmill_core::Error::offset);
        let mut this = Self::new(kind, "remote", &error)
            .with_hint(error.advice().cloned().map(Hint::Remote))
            .key_or_tensor(format.and_then(ggmill_core::Error::subject));
        (this.0.offset, this.0.path) = (offset, Some(PathBuf::from(error.name())));
        this.0.source = Some(Box::new(error));
        this
    }
}

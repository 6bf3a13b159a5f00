//! Errors, with the file they concern.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use ggmill_core::{ByteSize, RawStr, Subject, shard_file_name};

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system returned an error ([`Error::io_error`]), or the path does not lead to a
    /// regular file.
    Io,
    /// Another program wrote to the file after it was opened, so bytes read from it may mix old and
    /// new content.
    Changed,
    /// The output exists and must not be replaced.
    Exists,
    /// The file cannot be edited in place: it is read-only, a symbolic link, or locked or changed
    /// by another program.
    NotEditable,
    /// An edit was interrupted, before or just now, and its journal is next to the file.
    /// [`InPlace::recover`](crate::InPlace::recover) finishes or undoes it.
    Journal,
    /// The shards do not form a complete model: one is missing, duplicated, or from another set.
    Shards,
    /// The caller passed invalid arguments, such as an output that is one of its inputs.
    Misuse,
    /// The content of the file is invalid, with the kind from `ggmill-core`. A file truncated while
    /// it was open is [`Truncated`](ggmill_core::ErrorKind::Truncated) too.
    Format(ggmill_core::ErrorKind),
}

impl ErrorKind {
    /// Returns the stable name of the kind in snake case, such as `not_editable`. For
    /// [`Format`](Self::Format) it is the name of the kind from `ggmill-core`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Changed => "changed",
            Self::Exists => "exists",
            Self::NotEditable => "not_editable",
            Self::Journal => "journal",
            Self::Shards => "shards",
            Self::Misuse => "misuse",
            Self::Format(kind) => kind.name(),
        }
    }
}

/// An error with its kind and the path of its file. It is as small as a pointer.
///
/// The message begins with the path, escaped, and includes that of the cause, which
/// [`Error::io_error`] and [`Error::format_error`] return. [`source`](std::error::Error::source)
/// skips the cause, so that printing the whole chain repeats nothing.
///
/// ```
/// let error = ggmill_io::open("no-such-model.gguf").err().ok_or("an error")?;
/// assert_eq!(error.kind(), ggmill_io::ErrorKind::Io);
/// assert_eq!(error.to_string(), "no-such-model.gguf: cannot open: no such file");
/// # Ok::<(), &str>(())
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    path: PathBuf,
    detail: Detail,
}

/// The data of a message.
#[derive(Debug)]
pub(crate) enum Detail {
    Io {
        action: &'static str,
        source: io::Error,
    },
    NotRegular {
        found: &'static str,
    },
    NotPlain {
        name: Box<str>,
    },
    Exists,
    IsInput,
    Changed,
    Format {
        source: ggmill_core::Error,
        missing: Option<Missing>,
    },
    Outside {
        start: u64,
        end: u64,
        len: u64,
    },
    TooLarge {
        size: u64,
    },
    Long {
        len: u64,
        limit: u64,
    },
    NotAShardName {
        number: u64,
        count: u64,
    },
    Shards(ggmill_core::Error),
    Edit(EditFault),
    /// An error of a remote file, whose message already names it.
    Remote(ggmill_core::Error),
}

/// Why a file was not edited in place.
#[derive(Debug)]
pub(crate) enum EditFault {
    ReadOnly,
    Link { target: PathBuf },
    Busy,
    Changed,
    Halfway { source: io::Error },
    PendingJournal { journal: PathBuf },
    DamagedJournal { journal: PathBuf },
    ForeignJournal { journal: PathBuf },
}

/// The actual and the required length of a truncated file.
#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) len: u64,
    pub(crate) needed: u64,
}

impl Error {
    #[cold]
    pub(crate) fn new(path: &Path, detail: Detail) -> Self {
        Self(Box::new(Inner { path: path.to_owned(), detail }))
    }

    #[cold]
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::new(path, Detail::Io { action, source })
    }

    #[cold]
    pub(crate) fn format(path: &Path, source: ggmill_core::Error) -> Self {
        Self::new(path, Detail::Format { source, missing: None })
    }

    #[cold]
    pub(crate) fn shards(path: &Path, source: ggmill_core::Error) -> Self {
        match source.kind() {
            ggmill_core::ErrorKind::Shards => Self::new(path, Detail::Shards(source)),
            _ => Self::format(path, source),
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        match &self.0.detail {
            Detail::Io { .. } | Detail::NotRegular { .. } => ErrorKind::Io,
            Detail::Changed => ErrorKind::Changed,
            Detail::NotPlain { .. } => ErrorKind::Format(ggmill_core::ErrorKind::Malformed),
            Detail::Exists => ErrorKind::Exists,
            Detail::IsInput => ErrorKind::Misuse,
            Detail::Format { source, .. } => ErrorKind::Format(source.kind()),
            Detail::Remote(source) => match source.kind() {
                ggmill_core::ErrorKind::Changed => ErrorKind::Changed,
                ggmill_core::ErrorKind::Io => ErrorKind::Io,
                kind => ErrorKind::Format(kind),
            },
            Detail::Outside { .. } => ErrorKind::Format(ggmill_core::ErrorKind::Truncated),
            Detail::TooLarge { .. } | Detail::Long { .. } => {
                ErrorKind::Format(ggmill_core::ErrorKind::Limit)
            }
            Detail::NotAShardName { .. } | Detail::Shards(_) => ErrorKind::Shards,
            Detail::Edit(
                EditFault::ReadOnly | EditFault::Link { .. } | EditFault::Busy | EditFault::Changed,
            ) => ErrorKind::NotEditable,
            Detail::Edit(_) => ErrorKind::Journal,
        }
    }

    /// Returns the path of the file; for a missing shard, its expected path.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the absolute offset in the file, if the error has one.
    pub fn offset(&self) -> Option<u64> {
        match &self.0.detail {
            Detail::Format { source, .. } => source.offset(),
            Detail::Outside { start, .. } => Some(*start),
            _ => None,
        }
    }

    /// Returns the key or tensor that the error concerns, if any.
    pub fn subject(&self) -> Option<Subject<'_>> {
        match &self.0.detail {
            Detail::Format { source, .. } | Detail::Shards(source) => source.subject(),
            _ => None,
        }
    }

    /// Returns `true` if an interrupted edit is pending, which
    /// [`InPlace::recover`](crate::InPlace::recover) resolves.
    pub fn is_pending(&self) -> bool {
        matches!(self.0.detail, Detail::Edit(EditFault::PendingJournal { .. }))
    }

    /// Returns the error of the operating system, if there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0.detail {
            Detail::Io { source, .. } | Detail::Edit(EditFault::Halfway { source }) => Some(source),
            _ => None,
        }
    }

    /// Returns the error in the content of the file or the shard set, if it is one.
    pub fn format_error(&self) -> Option<&ggmill_core::Error> {
        match &self.0.detail {
            Detail::Format { source, .. } | Detail::Shards(source) => Some(source),
            _ => None,
        }
    }
}

impl From<Error> for ggmill_core::Error {
    /// Keeps the kind; [`cause`](ggmill_core::Error::cause) is this error.
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Format(kind) => kind,
            ErrorKind::Changed | ErrorKind::Journal => ggmill_core::ErrorKind::Changed,
            ErrorKind::Shards => ggmill_core::ErrorKind::Shards,
            _ => ggmill_core::ErrorKind::Io,
        };
        Self::caused(kind, error)
    }
}

/// Returns a path as text, escaped so that it cannot affect a terminal.
pub(crate) fn shown(path: &Path) -> RawStr<'_> {
    RawStr::new(path.as_os_str().as_encoded_bytes())
}

/// Returns the last component of a path, for messages that already name its directory.
fn file_name(path: &Path) -> RawStr<'_> {
    RawStr::new(path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes())
}

/// Displays common I/O errors in plain words, without the error number.
struct Cause<'a>(&'a io::Error);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind() {
            io::ErrorKind::NotFound => f.write_str("no such file"),
            io::ErrorKind::NotADirectory => f.write_str("not a directory"),
            io::ErrorKind::PermissionDenied => f.write_str("permission denied"),
            io::ErrorKind::StorageFull => f.write_str("no space left on the device"),
            io::ErrorKind::ReadOnlyFilesystem => f.write_str("the file system is read-only"),
            _ => self.0.fmt(f),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len, needed } = *self;
        // Rounded down, so that a file without its last byte does not show 100%.
        let percent = u128::from(len) * 100 / u128::from(needed.max(1));
        write!(
            f,
            "; the file has {len} of at least {needed} bytes ({percent}%), perhaps an incomplete \
             download"
        )
    }
}

fn example(number: u64, count: u64) -> String {
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    shard_file_name("NAME", narrow(number), narrow(count))
}

impl fmt::Display for EditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly => f.write_str("is read-only"),
            Self::Link { target } => {
                write!(f, "is a symbolic link to {}, expected the file itself", shown(target))
            }
            Self::Busy => f.write_str("another program is editing it"),
            Self::Changed => f.write_str(
                "another program changed the file during the edit, so the file was not edited",
            ),
            Self::Halfway { source } => write!(
                f,
                "the edit was interrupted: {}; its journal is next to the file",
                Cause(source)
            ),
            Self::PendingJournal { journal } => write!(
                f,
                "an edit of this file was interrupted: its journal {} is next to the file",
                file_name(journal)
            ),
            Self::DamagedJournal { journal } => write!(
                f,
                "an edit was interrupted, and its journal {} is damaged",
                file_name(journal)
            ),
            Self::ForeignJournal { journal } => write!(
                f,
                "the journal {} belongs to a different file, or to a different state of this one",
                file_name(journal)
            ),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Detail::Shards(source) | Detail::Remote(source) = &self.0.detail {
            return source.fmt(f);
        }
        write!(f, "{}: ", shown(&self.0.path))?;
        match &self.0.detail {
            Detail::Io { action, source } => write!(f, "{action}: {}", Cause(source)),
            Detail::NotRegular { found } => write!(f, "is {found}, expected a regular file"),
            Detail::NotPlain { name } => {
                write!(f, "{:?} is not a file name without a path", RawStr::from(&**name))
            }
            Detail::Exists => f.write_str("already exists"),
            Detail::IsInput => f.write_str("is an input, so it cannot be the output"),
            Detail::Changed => {
                f.write_str("another program wrote to the file while it was being read")
            }
            Detail::Format { source, missing } => {
                write!(f, "{source}")?;
                missing.as_ref().map_or(Ok(()), |missing| missing.fmt(f))
            }
            Detail::Outside { start, end, len } => {
                write!(
                    f,
                    "offset {start:#x}: bytes up to {end} are needed, but the file ends at {len}"
                )
            }
            Detail::TooLarge { size } => {
                write!(f, "{} do not fit into memory", ByteSize::from(*size))
            }
            Detail::Long { len, limit } => {
                let [len, limit] = ByteSize::both(*len, *limit);
                write!(f, "{len}, the limit is {limit}")
            }
            Detail::NotAShardName { number, count } => {
                write!(
                    f,
                    "contains shard {number} of {count}, expected a name of the form {:?} next to \
                     the other shards",
                    example(*number, *count)
                )
            }
            // Handled above, because their messages already begin with the path.
            Detail::Shards(_) | Detail::Remote(_) => Ok(()),
            Detail::Edit(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.detail {
            Detail::Io { source, .. } | Detail::Edit(EditFault::Halfway { source }) => {
                source.source()
            }
            Detail::Format { source, .. } | Detail::Shards(source) | Detail::Remote(source) => {
                source.source()
            }
            _ => None,
        }
    }
}

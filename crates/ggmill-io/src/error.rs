//! Errors, with the file they concern.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ggmill_core::{ByteSize, RawStr, Subject, shard_file_name};

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an error arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused, or the path leads to something that is not a regular file.
    /// [`Error::io_error`] says more.
    Io,
    /// Something else wrote to the file after it was opened: what was read from it may be half of
    /// each.
    Changed,
    /// The output exists, and replacing it was not allowed.
    Exists,
    /// The file cannot be edited in place: it is read-only, a symbolic link, or something else
    /// works on it.
    NotEditable,
    /// An edit was interrupted: a journal lies beside the file, or has just been left there.
    /// [`InPlace::recover`](crate::InPlace::recover) goes on with it.
    Journal,
    /// The files do not make up a whole model: a shard is missing, exists more than once, or
    /// belongs to another set.
    Shards,
    /// The caller asked for what cannot be: an output that is one of the files it is made of.
    Misuse,
    /// The content of the file, by the kinds of `ggmill-core`. A file that became shorter while it
    /// was open is [`Truncated`](ggmill_core::ErrorKind::Truncated) too.
    Format(ggmill_core::ErrorKind),
}

impl ErrorKind {
    /// The name of the kind, in lower case with `_`, which does not change: `not_editable`. Of a
    /// fault in the content it is the name that `ggmill-core` gives it.
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

/// An error with its kind and the path of the file it is about. The size of a pointer.
///
/// The message begins with that path, escaped, and holds that of the cause; [`Error::io_error`] and
/// [`Error::format_error`] have the cause itself. [`source`](std::error::Error::source) is what the
/// cause came from, so that a program that prints the whole chain says everything once.
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

/// The facts behind a message.
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
    /// A file that is not on this machine; the message names it.
    Elsewhere(ggmill_core::Error),
}

/// Why a file is not edited in place.
#[derive(Debug)]
pub(crate) enum EditFault {
    ReadOnly,
    Link { target: PathBuf },
    Busy,
    Changed,
    Halfway { source: io::Error },
    Pending { journal: PathBuf },
    Damaged { journal: PathBuf },
    NotIts { journal: PathBuf },
}

/// Of a file that ends too early: its actual length, and the minimum length expected.
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

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        match &self.0.detail {
            Detail::Io { .. } | Detail::NotRegular { .. } => ErrorKind::Io,
            Detail::Changed => ErrorKind::Changed,
            Detail::NotPlain { .. } => ErrorKind::Format(ggmill_core::ErrorKind::Malformed),
            Detail::Exists => ErrorKind::Exists,
            Detail::IsInput => ErrorKind::Misuse,
            Detail::Format { source, .. } => ErrorKind::Format(source.kind()),
            Detail::Elsewhere(source) => match source.kind() {
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

    /// The file the error is about. Of a missing shard, the path it should have.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The absolute offset in the file, where there is one.
    pub fn offset(&self) -> Option<u64> {
        match &self.0.detail {
            Detail::Format { source, .. } => source.offset(),
            Detail::Outside { start, .. } => Some(*start),
            _ => None,
        }
    }

    /// The key or tensor the error is about, where there is one.
    pub fn subject(&self) -> Option<Subject<'_>> {
        match &self.0.detail {
            Detail::Format { source, .. } | Detail::Shards(source) => source.subject(),
            _ => None,
        }
    }

    /// Whether the error is that an edit was interrupted and nothing has been done about it yet:
    /// [`InPlace::recover`](crate::InPlace::recover) does.
    pub fn is_pending(&self) -> bool {
        matches!(self.0.detail, Detail::Edit(EditFault::Pending { .. }))
    }

    /// The error of the operating system, if there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0.detail {
            Detail::Io { source, .. } | Detail::Edit(EditFault::Halfway { source }) => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// The fault in the content of the file, or of the files of a set.
    pub fn format_error(&self) -> Option<&ggmill_core::Error> {
        match &self.0.detail {
            Detail::Format { source, .. } | Detail::Shards(source) => Some(source),
            _ => None,
        }
    }
}

impl From<Error> for ggmill_core::Error {
    /// As the error of a source of bytes: it keeps its kind, and
    /// [`cause`](ggmill_core::Error::cause) is this error.
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

/// A path as text that cannot affect a terminal.
pub(crate) fn shown(path: &Path) -> RawStr<'_> {
    RawStr::new(path.as_os_str().as_encoded_bytes())
}

/// The last part of a path, to name a second file of the same directory.
fn file_name(path: &Path) -> RawStr<'_> {
    RawStr::new(path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes())
}

/// The cause in plain words where there are such.
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
        // Rounded down, so that a file that lacks its last byte does not show as whole.
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
            Self::Pending { journal } => write!(
                f,
                "an edit of this file was interrupted: its journal {} is next to the file",
                file_name(journal)
            ),
            Self::Damaged { journal } => write!(
                f,
                "an edit was interrupted, and its journal {} is damaged",
                file_name(journal)
            ),
            Self::NotIts { journal } => write!(
                f,
                "the journal {} belongs to a different file, or to a different state of this one",
                file_name(journal)
            ),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Detail::Shards(source) | Detail::Elsewhere(source) = &self.0.detail {
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
            // Already told, with the path that it begins with.
            Detail::Shards(_) | Detail::Elsewhere(_) => Ok(()),
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
            Detail::Format { source, .. } | Detail::Shards(source) | Detail::Elsewhere(source) => {
                source.source()
            }
            _ => None,
        }
    }
}

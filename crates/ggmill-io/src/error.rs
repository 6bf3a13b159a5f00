//! What can go wrong with a file, and which file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ggmill_core::{Endian, RawStr, Subject, shard_file_name};

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an error arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused, or the path leads to something that is no regular file. [`Error::io_error`] says more.
    Io,
    /// The output exists, and nobody said that it may be replaced.
    Exists,
    /// The file cannot be edited where it lies: it is read-only, a symbolic link, or something else works on it.
    NotEditable,
    /// An edit was interrupted: a journal lies beside the file, or has just been left there. Opening the file as [`InPlace`](crate::InPlace) goes on with it.
    Journal,
    /// The files do not make up a whole model: a shard is missing, stands twice, or belongs to another set.
    Shards,
    /// What the file holds, sorted as `ggmill-core` sorts it. A file that lost its end while it was open is
    /// [`Truncated`](ggmill_core::ErrorKind::Truncated) too.
    Format(ggmill_core::ErrorKind),
}

/// An error with its kind and the path of the file it is about. The size of a pointer.
///
/// The message begins with that path, escaped, and holds that of the cause; [`source`](std::error::Error::source) has the cause itself.
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
    Io { action: &'static str, source: io::Error },
    NotRegular { found: &'static str },
    NotPlain { name: Box<str> },
    Exists,
    Changed,
    Format { source: ggmill_core::Error, missing: Option<Missing> },
    Outside { start: u64, end: u64, len: u64 },
    TooLarge { size: u64 },
    Long { len: u64, limit: u64 },
    NoShard { number: usize, count: usize },
    Shards(ShardFault),
    Edit(EditFault),
}

/// Why a file is not edited where it lies.
#[derive(Debug)]
pub(crate) enum EditFault {
    ReadOnly,
    Link { target: PathBuf },
    Busy,
    Changed,
    Halfway { source: io::Error },
    Damaged { journal: PathBuf },
    NotIts { journal: PathBuf },
}

/// Of a file that ends too early: how much is there, and how much there should be at least.
#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) len: u64,
    pub(crate) needed: u64,
}

/// Why files are not one set of shards. Numbers are from 1, as names have them.
#[derive(Debug)]
pub(crate) enum ShardFault {
    Missing { numbers: Vec<u32>, count: u32 },
    NotGiven { numbers: Vec<u32>, count: u32 },
    NoShard,
    OtherCount { found: u64, expected: u64, other: PathBuf },
    Twice { number: u64, other: PathBuf },
    Beyond { number: u64, count: u64 },
    NotAShardName { number: u64, count: u64 },
    NoKeys { number: u32, count: u32 },
    Count { found: u64, named: u32 },
    Number { found: u64, named: u32, count: u32 },
    Architecture { found: Box<[u8]>, expected: Box<[u8]>, other: PathBuf },
    Endian { found: Endian, other: PathBuf },
    DuplicateTensor { name: Box<[u8]>, other: PathBuf },
    Tensors { found: u64, expected: u64 },
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
    pub(crate) fn shards(path: &Path, fault: ShardFault) -> Self {
        Self::new(path, Detail::Shards(fault))
    }

    /// Which sort of error this is.
    pub fn kind(&self) -> ErrorKind {
        match &self.0.detail {
            Detail::Io { .. } | Detail::NotRegular { .. } | Detail::Changed => ErrorKind::Io,
            Detail::NotPlain { .. } => ErrorKind::Format(ggmill_core::ErrorKind::Malformed),
            Detail::Exists => ErrorKind::Exists,
            Detail::Format { source, .. } => ErrorKind::Format(source.kind()),
            Detail::Outside { .. } => ErrorKind::Format(ggmill_core::ErrorKind::Truncated),
            Detail::TooLarge { .. } | Detail::Long { .. } => ErrorKind::Format(ggmill_core::ErrorKind::Limit),
            Detail::NoShard { .. } => ErrorKind::Format(ggmill_core::ErrorKind::Misuse),
            Detail::Shards(_) => ErrorKind::Shards,
            Detail::Edit(EditFault::ReadOnly | EditFault::Link { .. } | EditFault::Busy | EditFault::Changed) => ErrorKind::NotEditable,
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
            Detail::Format { source, .. } => source.subject(),
            Detail::Shards(ShardFault::DuplicateTensor { name, .. }) => Some(Subject::Tensor(RawStr::new(name))),
            _ => None,
        }
    }

    /// What the operating system said, where it was asked.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0.detail {
            Detail::Io { source, .. } | Detail::Edit(EditFault::Halfway { source }) => Some(source),
            _ => None,
        }
    }
}

/// A path as text that cannot act on a terminal.
pub(crate) fn shown(path: &Path) -> RawStr<'_> {
    RawStr::new(path.as_os_str().as_encoded_bytes())
}

/// The last part of a path, to name a second file of the same folder.
fn file_name(path: &Path) -> RawStr<'_> {
    RawStr::new(path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes())
}

/// The cause in plain words where there are such.
struct Cause<'a>(&'a io::Error);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind() {
            io::ErrorKind::NotFound => f.write_str("no such file"),
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
        write!(f, "; the file has {len} of at least {needed} bytes ({percent} %), perhaps an incomplete download")
    }
}

/// `shard 2 of 3`, `shards 2, 4 of 9`, or the first few of more.
fn write_numbers(f: &mut fmt::Formatter<'_>, numbers: &[u32], count: u32) -> fmt::Result {
    const SHOWN: usize = 8;
    f.write_str(if numbers.len() == 1 { "shard " } else { "shards " })?;
    for (place, number) in numbers.iter().take(SHOWN).enumerate() {
        write!(f, "{}{number}", if place == 0 { "" } else { ", " })?;
    }
    match numbers.len() {
        0..=SHOWN => write!(f, " of {count}"),
        more => write!(f, ", … ({more} in all) of {count}"),
    }
}

impl fmt::Display for ShardFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { numbers, count } => {
                f.write_str("missing: ")?;
                write_numbers(f, numbers, *count)
            }
            Self::NotGiven { numbers, count } => {
                write_numbers(f, numbers, *count)?;
                f.write_str(" not given")
            }
            Self::NoShard => f.write_str("is no shard: it has no key \"split.count\""),
            Self::OtherCount { found, expected, other } => write!(f, "split.count {found}, expected {expected} as in {}", file_name(other)),
            Self::Twice { number, other } => write!(f, "is shard {number}, and so is {}", shown(other)),
            Self::Beyond { number, count } => write!(f, "is shard {number} of {count}"),
            Self::NotAShardName { number, count } => {
                write!(f, "holds shard {number} of {count}, expected a name of the form {:?} beside the other shards", example(*number, *count))
            }
            Self::NoKeys { number, count } => write!(f, "named shard {number} of {count}, and has no key \"split.count\""),
            Self::Count { found, named } => write!(f, "split.count {found}, expected {named} as the name says"),
            Self::Number { found, named, count } => {
                write!(f, "split.no {found}, expected {} for shard {named} of {count}", named.saturating_sub(1))?;
                match found.checked_add(1).filter(|number| number <= &u64::from(*count)) {
                    Some(number) => write!(f, "; this is shard {number} under another name"),
                    None => Ok(()),
                }
            }
            Self::Architecture { found, expected, other } => {
                write!(f, "architecture {:?}, expected {:?} as in {}", RawStr::new(found), RawStr::new(expected), file_name(other))
            }
            Self::Endian { found, other } => write!(f, "{found}-endian, and {} is not", file_name(other)),
            Self::DuplicateTensor { name, other } => write!(f, "tensor {:?} stands in {} too", RawStr::new(name), file_name(other)),
            Self::Tensors { found, expected } => write!(f, "split.tensors.count {expected}, the shards have {found} together"),
        }
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
            Self::Link { target } => write!(f, "is a symbolic link to {}, expected the file itself", shown(target)),
            Self::Busy => f.write_str("another program is editing it"),
            Self::Changed => f.write_str("something changed the file meanwhile, so it was left alone"),
            Self::Halfway { source } => write!(f, "the edit was interrupted: {}; its journal is beside the file", Cause(source)),
            Self::Damaged { journal } => write!(f, "an edit was interrupted, and its journal {} is damaged", file_name(journal)),
            Self::NotIts { journal } => write!(f, "the journal {} belongs to another file, or to another state of this one", file_name(journal)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", shown(&self.0.path))?;
        match &self.0.detail {
            Detail::Io { action, source } => write!(f, "{action}: {}", Cause(source)),
            Detail::NotRegular { found } => write!(f, "is {found}, expected a regular file"),
            Detail::NotPlain { name } => write!(f, "{:?} is not the plain name of a file in this folder", RawStr::from(&**name)),
            Detail::Exists => f.write_str("exists already"),
            Detail::Changed => f.write_str("something else wrote to the file while it was read"),
            Detail::Format { source, missing } => {
                write!(f, "{source}")?;
                missing.as_ref().map_or(Ok(()), |missing| missing.fmt(f))
            }
            Detail::Outside { start, end, len } => write!(f, "offset {start:#x}: bytes up to {end} are needed, the file ends at {len}"),
            Detail::TooLarge { size } => write!(f, "{size} bytes do not fit into memory"),
            Detail::Long { len, limit } => write!(f, "{len} bytes, the limit is {limit}"),
            Detail::NoShard { number, count } => write!(f, "shard {number} counted from 0, the model has {count}"),
            Detail::Shards(fault) => fault.fmt(f),
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
            Detail::Io { source, .. } | Detail::Edit(EditFault::Halfway { source }) => Some(source),
            Detail::Format { source, .. } => Some(source),
            _ => None,
        }
    }
}

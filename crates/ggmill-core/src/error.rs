//! Errors: the cause, the location, and who is responsible.

use alloc::boxed::Box;
use core::fmt;

use crate::shard_fault::ShardFault;
use crate::{ByteSize, GgmlType, RawStr, ValueType};

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The kind of an error, sorted by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes do not begin like a GGUF file.
    NotGguf,
    /// A GGUF file of a version that is not 1, 2 or 3.
    Version,
    /// The bytes end before the file does: an incomplete download or copy.
    Truncated,
    /// The bytes contradict themselves or the specification in a way that cannot be represented.
    Malformed,
    /// Within the format, beyond the [`Limits`](crate::Limits) in force or the memory there is.
    Limit,
    /// Well formed, but this library does not interpret it (such as an unpublished tensor type).
    Unsupported,
    /// A requested key or tensor does not exist.
    Missing,
    /// A value exists, but has a different type from the requested one.
    WrongType,
    /// The caller broke a rule of the interface; never caused by what a file says.
    Misuse,
    /// The source of the bytes could not be read. [`Error::cause`] says more.
    Io,
    /// The bytes are not those that were opened, or an edit of them was interrupted halfway.
    Changed,
    /// The files do not make up a whole model: a shard is missing, exists more than once, or
    /// belongs to another set.
    Shards,
}

impl ErrorKind {
    /// The name of the kind, in lower case with `_`, which does not change: `not_gguf`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotGguf => "not_gguf",
            Self::Version => "version",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::Limit => "limit",
            Self::Unsupported => "unsupported",
            Self::Missing => "missing",
            Self::WrongType => "wrong_type",
            Self::Misuse => "misuse",
            Self::Io => "io",
            Self::Changed => "changed",
            Self::Shards => "shards",
        }
    }
}

/// The subject of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject<'a> {
    /// The metadata entry with this key.
    Key(RawStr<'a>),
    /// The tensor with this name.
    Tensor(RawStr<'a>),
}

/// An error with its kind, the absolute byte offset it was found at, and the key or tensor it is
/// about. The size of a pointer.
///
/// The message says what was found and what was expected, in lower case and without a full stop:
///
/// ```
/// use ggmill_core::{ErrorKind, Gguf};
/// let error = Gguf::parse(&b"<!DOCTYPE html>........."[..]).err().ok_or("an error")?;
/// assert_eq!(error.kind(), ErrorKind::NotGguf);
/// assert_eq!(error.to_string(), r#"offset 0x0: begins with "<!DO", expected "GGUF""#);
/// # Ok::<(), &str>(())
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    offset: Option<u64>,
    subject: OwnedSubject,
    detail: Detail,
}

enum OwnedSubject {
    None,
    Key(Box<[u8]>),
    Tensor(Box<[u8]>),
}

/// The facts behind a message. Private, so that detail can grow without breaking anyone.
#[derive(Debug)]
pub(crate) enum Detail {
    Magic { found: [u8; 4] },
    Version { found: u32 },
    Ends { what: &'static str, needs: u64, remain: u64 },
    Count { what: &'static str, count: u64, least: u64, remain: u64 },
    Limit { what: &'static str, found: u64, limit: u64 },
    Memory { bytes: u64 },
    UnknownValueType { found: u32 },
    Alignment { found: i128 },
    AlignmentType { found: ValueType },
    AlignmentsDiffer { first: u32, second: u32 },
    Elements,
    Bytes { ggml_type: GgmlType },
    RowNotBlocks { row: u64, ggml_type: GgmlType, block: u32 },
    OffsetOverflow { offset: u64 },
    DataOutside { start: u64, end: u64, file: u64 },
    Overlap { start: u64, other: Box<[u8]>, other_end: u64 },
    UnknownTensorType { found: GgmlType },
    WrongType { found: ValueType, expected: &'static str },
    DoesNotFit { expected: &'static str },
    NotUtf8 { valid_up_to: usize },
    KeyMissing,
    TensorMissing,
    Changed,
    NotLoaded { start: u64, end: u64, loaded: u64 },
    Row { row: u64, rows: u64 },
    Place { end: u64, size: u64 },
    NoPart { part: usize, parts: usize },
    OneSource { parts: usize },
    ByteOrder { ggml_type: GgmlType },
    NotBlocks { ggml_type: GgmlType, found: u64, block: u32 },
    Shards { shard: Option<usize>, name: Box<[u8]>, fault: ShardFault },
    Caused(Box<dyn core::error::Error + Send + Sync>),
    Other(&'static str),
    Written { expected: u64, found: u64 },
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, detail: Detail) -> Self {
        Self(Box::new(Inner { kind, offset: None, subject: OwnedSubject::None, detail }))
    }

    /// The error of a source of bytes, with the kind that tells its readers most: [`ErrorKind::Io`]
    /// where nothing else does.
    ///
    /// The message is that of the cause, and [`source`](core::error::Error::source) is the cause's
    /// own source, so that a program that prints the whole chain says everything once.
    /// [`Error::cause`] has the cause itself.
    ///
    /// ```
    /// use ggmill_core::{Error, ErrorKind};
    /// let error = Error::caused(ErrorKind::Io, std::io::Error::other("the cable is cut"));
    /// assert_eq!((error.kind(), error.to_string()), (ErrorKind::Io, "the cable is cut".to_owned()));
    /// assert!(error.cause().is_some_and(|cause| cause.is::<std::io::Error>()));
    /// ```
    #[cold]
    pub fn caused(
        kind: ErrorKind,
        cause: impl Into<Box<dyn core::error::Error + Send + Sync>>,
    ) -> Self {
        Self::new(kind, Detail::Caused(cause.into()))
    }

    #[cold]
    pub(crate) fn shards(
        shard: Option<usize>,
        name: Option<RawStr<'_>>,
        fault: ShardFault,
    ) -> Self {
        let name = name.unwrap_or_default().as_bytes().into();
        Self::new(ErrorKind::Shards, Detail::Shards { shard, name, fault })
    }

    #[must_use]
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    #[must_use]
    pub(crate) fn key(mut self, key: &[u8]) -> Self {
        if matches!(self.0.subject, OwnedSubject::None) {
            self.0.subject = OwnedSubject::Key(shortened(key));
        }
        self
    }

    #[must_use]
    pub(crate) fn tensor(mut self, name: &[u8]) -> Self {
        if matches!(self.0.subject, OwnedSubject::None) {
            self.0.subject = OwnedSubject::Tensor(shortened(name));
        }
        self
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The absolute offset in the file, where there is one.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The key or tensor the error is about, where there is one.
    pub fn subject(&self) -> Option<Subject<'_>> {
        match &self.0.subject {
            OwnedSubject::None => match &self.0.detail {
                Detail::Shards { fault: ShardFault::DuplicateTensor { name, .. }, .. } => {
                    Some(Subject::Tensor(RawStr::new(name)))
                }
                _ => None,
            },
            OwnedSubject::Key(key) => Some(Subject::Key(RawStr::new(key))),
            OwnedSubject::Tensor(name) => Some(Subject::Tensor(RawStr::new(name))),
        }
    }

    /// Of files that do not make up a model, the place of the one the error is about among those
    /// that were given.
    pub fn shard(&self) -> Option<usize> {
        match self.0.detail {
            Detail::Shards { shard, .. } => shard,
            _ => None,
        }
    }

    /// The error of the byte source, where it failed.
    pub fn cause(&self) -> Option<&(dyn core::error::Error + Send + Sync + 'static)> {
        match &self.0.detail {
            Detail::Caused(cause) => Some(&**cause),
            _ => None,
        }
    }

    /// Takes out the error of the byte source; returns the error itself without one.
    pub fn into_cause(self) -> Result<Box<dyn core::error::Error + Send + Sync>, Self> {
        let inner = *self.0;
        match inner.detail {
            Detail::Caused(cause) => Ok(cause),
            detail => Err(Self(Box::new(Inner { detail, ..inner }))),
        }
    }

    /// The message without the offset and the subject, for callers that show these separately.
    ///
    /// ```
    /// let error = ggmill_core::Gguf::parse(&b"<!DOCTYPE html>........."[..]).unwrap_err();
    /// assert_eq!(error.to_string(), r#"offset 0x0: begins with "<!DO", expected "GGUF""#);
    /// assert_eq!(error.message().to_string(), r#"begins with "<!DO", expected "GGUF""#);
    /// ```
    pub fn message(&self) -> impl fmt::Display + '_ {
        &self.0.detail
    }

    /// For a file that ends too early: the least length in bytes it would need, as far as is known.
    pub fn needed_length(&self) -> Option<u64> {
        match self.0.detail {
            Detail::DataOutside { end, .. } => Some(end),
            Detail::Ends { needs, .. } => self.0.offset?.checked_add(needs),
            _ => None,
        }
    }
}

/// A subject is kept for a message, not for reference: a name of a gigabyte is cut.
fn shortened(name: &[u8]) -> Box<[u8]> {
    const MAX_LEN: usize = 256;
    name.get(..MAX_LEN).unwrap_or(name).into()
}

pub(crate) fn shortened_name(name: &[u8]) -> Box<[u8]> {
    shortened(name)
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { found } => {
                write!(f, "begins with {:?}, expected \"GGUF\"", RawStr::new(found))
            }
            Self::Version { found } => write!(f, "version {found}, expected 1, 2 or 3"),
            Self::Ends { what, needs, remain } => {
                write!(f, "{what} needs {needs} bytes, but {remain} remain in the file")
            }
            Self::Count { what, count, least, remain } => {
                write!(
                    f,
                    "{count} {what} need at least {least} bytes each, but {remain} remain in the \
                     file"
                )
            }
            Self::Limit { what, found, limit } => write!(f, "{what} {found}, the limit is {limit}"),
            Self::Memory { bytes } => {
                let bytes = ByteSize::from(*bytes);
                write!(f, "not enough memory for the {bytes} that the header needs")
            }
            Self::UnknownValueType { found } => write!(f, "value type {found}, expected 0 to 12"),
            Self::Alignment { found } => {
                write!(f, "alignment {found}, expected a positive multiple of 8 below 2^32")
            }
            Self::AlignmentType { found } => write!(f, "alignment has type {found}, expected u32"),
            Self::AlignmentsDiffer { first, second } => {
                write!(f, "alignment {second}, but an earlier entry with this key has {first}")
            }
            Self::Elements => write!(f, "the number of elements exceeds 64 bits"),
            Self::Bytes { ggml_type } => {
                write!(f, "the size in bytes as {ggml_type} exceeds 64 bits")
            }
            Self::RowNotBlocks { row, ggml_type, block } => {
                write!(
                    f,
                    "rows of {row} elements, expected a multiple of {block}, the block size of \
                     {ggml_type}"
                )
            }
            Self::OffsetOverflow { offset } => write!(
                f,
                "data from offset {offset} ends beyond 64 bits, counted from the start of the file"
            ),
            Self::DataOutside { start, end, file } => {
                write!(f, "data from {start} to {end}, but the file ends at {file}")
            }
            Self::Overlap { start, other, other_end } => {
                write!(
                    f,
                    "data from {start} overlaps tensor {:?}, whose data ends at {other_end}",
                    RawStr::new(other)
                )
            }
            Self::UnknownTensorType { found } => {
                write!(f, "{found} is unknown, so its data cannot be read")
            }
            Self::WrongType { found, expected } => write!(f, "is {found}, expected {expected}"),
            Self::DoesNotFit { expected } => write!(f, "the value does not fit {expected}"),
            Self::NotUtf8 { valid_up_to } => {
                write!(f, "not valid UTF-8 from byte {valid_up_to} of the string")
            }
            Self::KeyMissing => write!(f, "no such key"),
            Self::TensorMissing => write!(f, "no such tensor"),
            Self::Changed => write!(f, "the file has changed since it was opened"),
            Self::NotLoaded { start, end, loaded } => {
                write!(
                    f,
                    "data from {start} to {end} is needed, but {loaded} bytes of the file are in \
                     memory"
                )
            }
            Self::Row { row, rows } => {
                write!(f, "row {row} was requested, but the tensor has {rows} rows")
            }
            Self::Place { end, size } => {
                write!(f, "bytes up to {end} were requested, but the data has {size} bytes")
            }
            Self::NoPart { part, parts } => {
                write!(f, "file {part} was requested, counted from 0, but the model has {parts}")
            }
            Self::OneSource { parts } => {
                write!(f, "one source was given for a model of {parts} files")
            }
            Self::ByteOrder { ggml_type } => {
                write!(f, "the byte order within blocks of {ggml_type} is not known")
            }
            Self::NotBlocks { ggml_type, found, block } => write!(
                f,
                "{found} bytes, expected a multiple of {block} for the blocks of {ggml_type}"
            ),
            Self::Shards { name, fault, .. } if name.is_empty() => fault.fmt(f),
            Self::Shards { name, fault, .. } => write!(f, "{}: {fault}", RawStr::new(name)),
            Self::Caused(cause) => cause.fmt(f),
            Self::Other(text) => f.write_str(text),
            Self::Written { expected, found } => {
                write!(f, "{found} bytes of data, but the plan has {expected}")
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut place = false;
        if let Some(offset) = self.0.offset {
            write!(f, "offset {offset:#x}")?;
            place = true;
        }
        let subject = self.subject().filter(|_| !matches!(self.0.detail, Detail::Shards { .. }));
        if let Some(subject) = subject {
            f.write_str(if place { ", " } else { "" })?;
            match subject {
                Subject::Key(key) => write!(f, "key {key:?}")?,
                Subject::Tensor(name) => write!(f, "tensor {name:?}")?,
            }
            place = true;
        }
        f.write_str(if place { ": " } else { "" })?;
        fmt::Display::fmt(&self.0.detail, f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.cause()?.source()
    }
}

/// Turns "there is no such key or tensor" into `None`, for values that may be absent.
///
/// ```
/// use ggmill_core::{Gguf, Optional as _};
/// let empty = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// let model = Gguf::parse(&empty[..])?;
/// assert_eq!(model.metadata().str("general.name").optional()?, None);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
pub trait Optional<T>: sealed::Sealed {
    /// `Ok(None)` for [`ErrorKind::Missing`]; every other error stays one.
    fn optional(self) -> Result<Option<T>>;
}

mod sealed {
    /// Keeps [`Optional`](super::Optional) to results of this crate.
    #[expect(unnameable_types, reason = "so that other crates cannot implement it")]
    pub trait Sealed {}
    impl<T> Sealed for super::Result<T> {}
}

impl<T> Optional<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == ErrorKind::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }
}

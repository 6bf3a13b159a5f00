//! Errors: the cause, the location, and who is responsible.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::{ByteSize, Endian, GgmlType, RawStr, ValueType};

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
    /// The file is valid so far, but exceeds the [`Limits`](crate::Limits) or the available memory.
    Limit,
    /// The file is valid, but this library cannot interpret a part of it, such as an unknown tensor
    /// type.
    Unsupported,
    /// A requested key or tensor does not exist.
    Missing,
    /// A value exists, but has a different type from the requested one.
    WrongType,
    /// The caller broke a rule of the interface; never caused by the content of a file.
    Misuse,
    /// The source of the bytes could not be read. [`Error::cause`] has its error.
    Io,
    /// The file was changed after it was opened, or an edit of it was interrupted.
    Changed,
    /// The files do not make up a whole model: a shard is missing, exists more than once, or
    /// belongs to another set.
    Shards,
}

impl ErrorKind {
    /// Returns the stable name of the kind, in snake case: `not_gguf`.
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

/// An error with its kind, the absolute byte offset of the fault, and the key or tensor concerned.
/// It has the size of a pointer.
///
/// The message says what was found and what was expected, in lower case and without a full stop:
///
/// ```
/// use ggmill_core::{ErrorKind, Header};
/// let error = Header::parse(&b"<!DOCTYPE html>........."[..]).err().ok_or("an error")?;
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

/// The facts in a message. Private, so that details can be added without a breaking change.
#[derive(Debug)]
pub(crate) enum Detail {
    Magic { found: [u8; 4] },
    Version { found: u32 },
    Ends { what: &'static str, needs: u64, remain: u64 },
    Count { what: &'static str, count: u64, least: u64, remain: u64, needs: u64 },
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

    /// Wraps the error of a source of bytes, with the most specific kind that applies: usually
    /// [`ErrorKind::Io`].
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
            self.0.subject = OwnedSubject::Key(truncated_name(key));
        }
        self
    }

    #[must_use]
    pub(crate) fn tensor(mut self, name: &[u8]) -> Self {
        if matches!(self.0.subject, OwnedSubject::None) {
            self.0.subject = OwnedSubject::Tensor(truncated_name(name));
        }
        self
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the absolute offset in the file, if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the key or tensor that the error is about, if any.
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

    /// Returns the index of the file that the error is about among those passed to
    /// [`Model::from_shards`](crate::Model::from_shards).
    pub fn shard(&self) -> Option<usize> {
        match self.0.detail {
            Detail::Shards { shard, .. } => shard,
            _ => None,
        }
    }

    /// Returns the error of the source of bytes, for an error that [wraps](Error::caused) one.
    pub fn cause(&self) -> Option<&(dyn core::error::Error + Send + Sync + 'static)> {
        match &self.0.detail {
            Detail::Caused(cause) => Some(&**cause),
            _ => None,
        }
    }

    /// Unwraps the error of the source of bytes. Fails with the unchanged error if there is none.
    pub fn into_cause(self) -> Result<Box<dyn core::error::Error + Send + Sync>, Self> {
        let inner = *self.0;
        match inner.detail {
            Detail::Caused(cause) => Ok(cause),
            detail => Err(Self(Box::new(Inner { detail, ..inner }))),
        }
    }

    /// Returns the message without the offset and the subject, for callers that show these
    /// separately.
    ///
    /// ```
    /// let error = ggmill_core::Header::parse(&b"<!DOCTYPE html>........."[..]).unwrap_err();
    /// assert_eq!(error.to_string(), r#"offset 0x0: begins with "<!DO", expected "GGUF""#);
    /// assert_eq!(error.message().to_string(), r#"begins with "<!DO", expected "GGUF""#);
    /// ```
    pub fn message(&self) -> impl fmt::Display + '_ {
        &self.0.detail
    }

    /// Returns the minimum length in bytes that a truncated file needs, as far as known.
    pub fn needed_length(&self) -> Option<u64> {
        match self.0.detail {
            Detail::DataOutside { end, .. } => Some(end),
            Detail::Count { needs, .. } => Some(needs),
            Detail::Ends { needs, .. } => self.0.offset?.checked_add(needs),
            _ => None,
        }
    }
}

/// Copies at most 256 bytes of a name: enough for a message, and a file may have a name of a
/// gigabyte.
pub(crate) fn truncated_name(name: &[u8]) -> Box<[u8]> {
    const MAX_LEN: usize = 256;
    name.get(..MAX_LEN).unwrap_or(name).into()
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
            Self::Count { what, count, least, remain, .. } => {
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
        let mut has_prefix = false;
        if let Some(offset) = self.0.offset {
            write!(f, "offset {offset:#x}")?;
            has_prefix = true;
        }
        let subject = self.subject().filter(|_| !matches!(self.0.detail, Detail::Shards { .. }));
        if let Some(subject) = subject {
            f.write_str(if has_prefix { ", " } else { "" })?;
            match subject {
                Subject::Key(key) => write!(f, "key {key:?}")?,
                Subject::Tensor(name) => write!(f, "tensor {name:?}")?,
            }
            has_prefix = true;
        }
        f.write_str(if has_prefix { ": " } else { "" })?;
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

/// Converts "no such key" and "no such tensor" to `None`, for values that may be absent.
///
/// ```
/// use ggmill_core::{Header, Optional as _};
/// let empty = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// let model = Header::parse(&empty[..])?;
/// assert_eq!(model.metadata().str("general.name").optional()?, None);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
pub trait Optional<T>: sealed::Sealed {
    /// Returns `Ok(None)` for [`ErrorKind::Missing`] and every other error unchanged.
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

/// A fault of a shard set. Shard numbers count from 1, as in file names; `other` is the name of
/// another file.
#[derive(Debug)]
pub(crate) enum ShardFault {
    Missing { numbers: Vec<u32>, count: u32 },
    NotGiven { numbers: Vec<u32>, count: u32 },
    NoShard,
    OtherCount { found: u64, expected: u64, other: Box<[u8]> },
    Duplicate { number: u64, other: Box<[u8]> },
    Beyond { number: u64, count: u64 },
    NoKeys { number: u32, count: u32 },
    Count { found: u64, named: u32 },
    Number { found: u64, named: u32, count: u32 },
    Architecture { found: Box<[u8]>, expected: Box<[u8]>, other: Box<[u8]> },
    Endian { found: Endian, other: Box<[u8]> },
    DuplicateTensor { name: Box<[u8]>, other: Box<[u8]> },
    Tensors { found: u64, expected: u64 },
}

/// Writes `shard 2 of 3` or `shards 2, 4 of 9`, with at most eight numbers.
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

/// Returns the last component of a path, for the second file in a message.
fn short(name: &[u8]) -> RawStr<'_> {
    let separates = |byte: &u8| *byte == b'/' || cfg!(windows) && *byte == b'\\';
    RawStr::new(name.rsplit(separates).next().unwrap_or(name))
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
            Self::NoShard => f.write_str("is not a shard: the key \"split.count\" is missing"),
            Self::OtherCount { found, expected, other } => {
                write!(f, "split.count {found}, expected {expected} as in {}", short(other))
            }
            Self::Duplicate { number, other } => {
                write!(f, "is shard {number}, and so is {}", RawStr::new(other))
            }
            Self::Beyond { number, count } => write!(f, "is shard {number} of {count}"),
            Self::NoKeys { number, count } => {
                write!(f, "named shard {number} of {count}, but has no key \"split.count\"")
            }
            Self::Count { found, named } => {
                write!(f, "split.count {found}, expected {named} as in the name")
            }
            Self::Number { found, named, count } => {
                write!(
                    f,
                    "split.no {found}, expected {} for shard {named} of {count}",
                    named.saturating_sub(1)
                )?;
                match found.checked_add(1).filter(|number| number <= &u64::from(*count)) {
                    Some(number) => write!(f, "; this is shard {number} under a different name"),
                    None => Ok(()),
                }
            }
            Self::Architecture { found, expected, other } => {
                write!(
                    f,
                    "architecture {:?}, expected {:?} as in {}",
                    RawStr::new(found),
                    RawStr::new(expected),
                    short(other)
                )
            }
            Self::Endian { found, other } => {
                write!(f, "is {found}-endian, but {} is not", short(other))
            }
            Self::DuplicateTensor { name, other } => {
                write!(f, "tensor {:?} is also in {}", RawStr::new(name), short(other))
            }
            Self::Tensors { found, expected } => {
                write!(
                    f,
                    "split.tensors.count {expected}, but the shards have {found} tensors in total"
                )
            }
        }
    }
}

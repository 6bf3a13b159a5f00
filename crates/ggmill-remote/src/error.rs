//! Errors: the file, the cause, and advice.

use std::fmt;
use std::ops::Range;

use ggmill_core::RawStr;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address is not valid, or not the address of a file.
    Address,
    /// The server has no such file.
    NotFound,
    /// The server rejects the credentials, or requires some.
    Denied,
    /// The file was replaced after it was opened.
    Changed,
    /// The server sends whole files only.
    NoRanges,
    /// The response is not valid HTTP for this request, or contradicts another response.
    Protocol,
    /// The server cannot be reached or does not respond, even after several attempts.
    Unavailable,
    /// The connection is not secure: its certificate was rejected, or a redirect is not encrypted.
    Insecure,
    /// The files do not make up a whole model.
    Shards,
    /// The content of the file is not valid: the kind of `ggmill-core`'s error.
    Format(ggmill_core::ErrorKind),
}

/// Advice on how to resolve an error, if known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// The Hub requires an access token, and the options have none. The response is the same for a
    /// repository that does not exist.
    HubToken,
    /// The access token is rejected: expired, revoked, or without permission to read this repository.
    OtherHubToken,
    /// The repository is gated: its conditions are accepted on its page.
    Gated {
        /// The address of the page.
        page: String,
    },
    /// The location is a repository, and a file in it is needed.
    FileInRepository,
    /// S3 requires credentials, and the options have none.
    S3Credentials,
    /// The credentials for S3 are rejected: wrong, expired, or without permission to read the object.
    OtherS3Credentials,
    /// The bucket is in another region.
    S3Region {
        /// The region that the server names.
        region: String,
    },
    /// The server sends whole files only: download the file and read the copy.
    Download,
    /// The server is busy and says when to retry.
    Later {
        /// Seconds after the response.
        seconds: u64,
    },
    /// No host has this name: it is misspelled, or there is no network.
    Host,
    /// The certificate is from an unknown authority, such as a proxy's.
    Certificates,
    /// The file was replaced while it was read: open it again.
    Again,
}

/// An error with its kind and the name of the file. It has the size of a pointer.
///
/// ```
/// use ggmill_remote::{ErrorKind, Location};
/// let error = Location::parse("ftp://example.com/x.gguf").err().ok_or("an error")?;
/// assert_eq!(error.kind(), ErrorKind::Address);
/// assert_eq!(error.to_string(), "ftp://example.com/x.gguf: expected the scheme https, http, hf or s3");
/// # Ok::<(), &str>(())
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    name: String,
    detail: Detail,
    advice: Option<Advice>,
}

/// The facts in a message.
#[derive(Debug)]
pub(crate) enum Detail {
    Address {
        expected: &'static str,
    },
    /// The location is a repository, expected a file.
    Repository,
    Status {
        status: u16,
        said: Option<String>,
    },
    /// The error of the last of several attempts.
    Unavailable {
        attempts: u32,
        last: Box<str>,
    },
    Insecure(Box<str>),
    Protocol {
        requested: Option<Range<u64>>,
        came: Box<str>,
    },
    NoRanges {
        requested: Range<u64>,
    },
    Changed {
        what: &'static str,
        found: Box<str>,
        expected: Box<str>,
    },
    Outside {
        start: u64,
        end: u64,
        len: u64,
    },
    /// A shard whose file name is not that of a shard, so the others cannot be found.
    NotAShardName {
        number: u64,
        count: u64,
    },
    Format {
        source: ggmill_core::Error,
        missing: Option<Missing>,
    },
    Shards {
        source: ggmill_core::Error,
        /// If true, some shards were not requested.
        more: bool,
    },
}

/// The actual length of a truncated file, and the minimum length that it needs.
#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) len: u64,
    pub(crate) needed: u64,
}

impl Error {
    #[cold]
    pub(crate) fn new(name: impl fmt::Display, detail: Detail) -> Self {
        let advice = match &detail {
            Detail::NoRanges { .. } => Some(Advice::Download),
            Detail::Changed { .. } => Some(Advice::Again),
            Detail::Repository => Some(Advice::FileInRepository),
            _ => None,
        };
        Self(Box::new(Inner { name: name.to_string(), detail, advice }))
    }

    #[must_use]
    pub(crate) fn advise(mut self, advice: Option<Advice>) -> Self {
        self.0.advice = advice.or(self.0.advice);
        self
    }

    /// Sets the number of attempts of an [`Unavailable`](Detail::Unavailable) error.
    #[must_use]
    pub(crate) fn after_attempts(mut self, made: u32) -> Self {
        if let Detail::Unavailable { attempts, .. } = &mut self.0.detail {
            *attempts = made;
        }
        self
    }

    /// Adds that some shards were not requested.
    #[must_use]
    pub(crate) fn with_unrequested_shards(mut self) -> Self {
        if let Detail::Shards { more, .. } = &mut self.0.detail {
            *more = true;
        }
        self
    }

    /// Converts an error of a model, unwrapping an error of this crate if the source failed.
    #[cold]
    pub(crate) fn of_core(name: &str, error: ggmill_core::Error, missing: Option<Missing>) -> Self {
        let kind = error.kind();
        match error.into_cause().map(<dyn std::error::Error + Send + Sync>::downcast) {
            Ok(Ok(error)) => *error,
            Ok(Err(cause)) => {
                let source = ggmill_core::Error::caused(kind, cause);
                Self::new(name, Detail::Format { source, missing })
            }
            Err(source) if kind == ggmill_core::ErrorKind::Shards => {
                Self::new(name, Detail::Shards { source, more: false })
            }
            Err(source) => Self::new(name, Detail::Format { source, missing }),
        }
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> ErrorKind {
        match &self.0.detail {
            Detail::Address { .. } | Detail::Repository => ErrorKind::Address,
            Detail::Status { status: 401 | 403, .. } => ErrorKind::Denied,
            Detail::Status { status: 404 | 410, .. } => ErrorKind::NotFound,
            Detail::Status { status: 412, .. } | Detail::Changed { .. } => ErrorKind::Changed,
            Detail::Status { .. } | Detail::Protocol { .. } => ErrorKind::Protocol,
            Detail::Unavailable { .. } => ErrorKind::Unavailable,
            Detail::Insecure(_) => ErrorKind::Insecure,
            Detail::NoRanges { .. } => ErrorKind::NoRanges,
            Detail::Outside { .. } => ErrorKind::Format(ggmill_core::ErrorKind::Truncated),
            Detail::Format { source, .. } => ErrorKind::Format(source.kind()),
            Detail::Shards { .. } | Detail::NotAShardName { .. } => ErrorKind::Shards,
        }
    }

    /// Returns the name of the file, as [`Location`](crate::Location) shows it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns advice on how to resolve it, if known.
    pub fn advice(&self) -> Option<&Advice> {
        self.0.advice.as_ref()
    }

    /// Returns the status of an error response.
    pub fn status(&self) -> Option<u16> {
        match self.0.detail {
            Detail::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Returns the error in the content of the file or of the files of a set.
    pub fn format_error(&self) -> Option<&ggmill_core::Error> {
        match &self.0.detail {
            Detail::Format { source, .. } | Detail::Shards { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<Error> for ggmill_core::Error {
    /// Wraps the error as that of a source of bytes. It keeps its kind, and
    /// [`cause`](ggmill_core::Error::cause) is this error.
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Format(kind) => kind,
            ErrorKind::Changed => ggmill_core::ErrorKind::Changed,
            ErrorKind::Shards => ggmill_core::ErrorKind::Shards,
            _ => ggmill_core::ErrorKind::Io,
        };
        Self::caused(kind, error)
    }
}

/// Returns the reason phrase of a status.
fn reason(status: u16) -> &'static str {
    match status {
        400 => "bad request",
        401 => "not authorized",
        403 => "forbidden",
        404 => "not found",
        405 => "method not allowed",
        407 => "the proxy requires a user name and password",
        410 => "gone",
        412 => "the file has changed since it was opened",
        416 => "no such range",
        451 => "unavailable for legal reasons",
        500..=599 => "the server failed",
        300..=399 => "a redirect without a usable target",
        _ => "unexpected",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Detail::Shards { source, more } = &self.0.detail {
            source.fmt(f)?;
            return f.write_str(if *more { "; the others were not requested" } else { "" });
        }
        write!(f, "{}: ", RawStr::from(&*self.0.name))?;
        match &self.0.detail {
            Detail::Address { expected } => write!(f, "expected {expected}"),
            Detail::Repository => f.write_str("is a repository, expected a file in it"),
            Detail::Status { status, said } => {
                write!(f, "the response is {status}, {}", reason(*status))?;
                said.as_ref().map_or(Ok(()), |said| write!(f, ": {}", RawStr::from(&**said)))
            }
            Detail::Unavailable { attempts: 1, last } => write!(f, "{last}"),
            Detail::Unavailable { attempts, last } => write!(f, "{last}, {attempts} times"),
            Detail::Insecure(why) => write!(f, "{why}"),
            Detail::Protocol { requested: Some(requested), came } => {
                write!(
                    f,
                    "bytes {} to {} were requested, but {came}",
                    requested.start, requested.end
                )
            }
            Detail::Protocol { requested: None, came } => write!(f, "{came}"),
            Detail::NoRanges { requested } => write!(
                f,
                "bytes {} to {} were requested, but the server sends only whole files",
                requested.start, requested.end
            ),
            Detail::Changed { what, found, expected } => write!(
                f,
                "changed while it was being read: {what} {}, was {}",
                RawStr::from(&**found),
                RawStr::from(&**expected)
            ),
            Detail::Outside { start, end, len } => {
                write!(
                    f,
                    "offset {start:#x}: bytes up to {end} are needed, but the file ends at {len}"
                )
            }
            Detail::NotAShardName { number, count } => write!(
                f,
                "contains shard {number} of {count}, expected a name of the form \
                 \"NAME-{number:05}-of-{count:05}.gguf\" next to the other shards"
            ),
            Detail::Format { source, missing } => {
                write!(f, "{source}")?;
                let Some(Missing { len, needed }) = missing else { return Ok(()) };
                // Rounded down, so that a file without its last byte is not shown as 100%.
                let percent = u128::from(*len) * 100 / u128::from(*needed).max(1);
                write!(
                    f,
                    "; the file has {len} of at least {needed} bytes ({percent}%), perhaps an \
                     incomplete upload"
                )
            }
            // Written above: the message begins with a name.
            Detail::Shards { .. } => Ok(()),
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
            Detail::Format { source, .. } | Detail::Shards { source, .. } => source.source(),
            _ => None,
        }
    }
}

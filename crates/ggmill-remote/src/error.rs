//! Errors: what was asked, what came, and what to do about it.

use std::fmt;
use std::ops::Range;

use ggmill_core::RawStr;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an error arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address is not one, or not of a file.
    Address,
    /// The server has no such file.
    NotFound,
    /// The server wants other credentials, or any.
    Denied,
    /// The file is not the one that was opened: it was replaced meanwhile.
    Changed,
    /// The server sends whole files only.
    NoRanges,
    /// The answer is not one that HTTP allows here, or contradicts another.
    Protocol,
    /// The server cannot be reached or does not answer, also after several attempts.
    Unavailable,
    /// The connection is not safe: its certificate was refused, or a redirect leaves encryption.
    Insecure,
    /// The files do not make up a whole model.
    Shards,
    /// The content of the file, by the kinds of `ggmill-core`.
    Format(ggmill_core::ErrorKind),
}

/// Advice on how to resolve an error, if known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// The Hub wants an access token, and none was given; a repository that does not exist has the
    /// same answer.
    HubToken,
    /// The access token that was given is refused: expired, revoked, or without the right to read
    /// this repository.
    OtherHubToken,
    /// The repository is gated: its conditions are accepted on its page.
    Gated {
        /// The address of the page.
        page: String,
    },
    /// The name is that of a repository; a file in it is meant.
    FileInRepository,
    /// S3 wants credentials, and none were given.
    S3Credentials,
    /// The credentials for S3 are refused: wrong, expired, or without the right to read this.
    OtherS3Credentials,
    /// The bucket is in another region.
    S3Region {
        /// The region that the server names.
        region: String,
    },
    /// The server sends whole files only: download the file and read the copy.
    Download,
    /// The server is busy, and said when to ask again.
    Later {
        /// Seconds from the answer.
        seconds: u64,
    },
    /// No host has this name: it is misspelled, or there is no network.
    Host,
    /// The certificate is of an authority that is not known, such as that of a proxy.
    Certificates,
    /// The file was replaced while it was read: begin again.
    Again,
}

/// An error with its kind and the name of the file it is about. The size of a pointer.
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

/// The facts behind a message.
#[derive(Debug)]
pub(crate) enum Detail {
    Address {
        expected: &'static str,
    },
    /// The name of a repository where that of a file is needed.
    Repository,
    Status {
        status: u16,
        said: Option<String>,
    },
    /// The last of several attempts.
    Unavailable {
        attempts: u32,
        last: Box<str>,
    },
    Insecure(Box<str>),
    Protocol {
        asked: Option<Range<u64>>,
        came: Box<str>,
    },
    NoRanges {
        asked: Range<u64>,
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
    /// A shard under a name that does not lead to the others.
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
        /// Whether there may be more of it, which was not asked for.
        more: bool,
    },
}

/// Of a file that ends too early: its actual length, and the minimum length expected.
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

    /// The same after so many attempts.
    #[must_use]
    pub(crate) fn after(mut self, made: u32) -> Self {
        if let Detail::Unavailable { attempts, .. } = &mut self.0.detail {
            *attempts = made;
        }
        self
    }

    /// The same of a set whose other files were not asked for.
    #[must_use]
    pub(crate) fn and_perhaps_more(mut self) -> Self {
        if let Detail::Shards { more, .. } = &mut self.0.detail {
            *more = true;
        }
        self
    }

    /// The error of a source of bytes, which is one of this crate already where the source failed.
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

    /// The kind of error.
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

    /// The name of the file that the error is about, as [`Location`](crate::Location) shows it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Advice on how to resolve it, if known.
    pub fn advice(&self) -> Option<&Advice> {
        self.0.advice.as_ref()
    }

    /// The status of the answer, where that is what went wrong.
    pub fn status(&self) -> Option<u16> {
        match self.0.detail {
            Detail::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The fault in the content of the file, or of the files of a set.
    pub fn format_error(&self) -> Option<&ggmill_core::Error> {
        match &self.0.detail {
            Detail::Format { source, .. } | Detail::Shards { source, .. } => Some(source),
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
            ErrorKind::Changed => ggmill_core::ErrorKind::Changed,
            ErrorKind::Shards => ggmill_core::ErrorKind::Shards,
            _ => ggmill_core::ErrorKind::Io,
        };
        Self::caused(kind, error)
    }
}

/// The reason phrases of the answers that are met.
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
            Detail::Protocol { asked: Some(asked), came } => {
                write!(f, "bytes {} to {} were requested, but {came}", asked.start, asked.end)
            }
            Detail::Protocol { asked: None, came } => write!(f, "{came}"),
            Detail::NoRanges { asked } => write!(
                f,
                "bytes {} to {} were requested, but the server sends only whole files",
                asked.start, asked.end
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
                // Rounded down, so that a file that lacks its last byte does not show as whole.
                let percent = u128::from(*len) * 100 / u128::from(*needed).max(1);
                write!(
                    f,
                    "; the file has {len} of at least {needed} bytes ({percent}%), perhaps an \
                     incomplete upload"
                )
            }
            // Already told, with the name that it begins with.
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

//! Why an index could not be written.

use std::fmt;
use std::io;

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an index could not be written. A file that cannot be read is a row, not an
/// error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An output could not be written.
    Write(io::Error),
    /// The earlier index is none, or is damaged: the sentence says which table and where.
    Previous(String),
    /// The rows could not be encoded.
    Encode(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => write!(f, "cannot write the index: {error}"),
            Self::Previous(why) => write!(f, "not an index that can be updated: {why}"),
            Self::Encode(why) => write!(f, "cannot encode the index: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

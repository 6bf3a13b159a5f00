//! From bytes to a [`Header`](crate::Header): one parser for a header in memory and for one that arrives in pieces.
//!
//! `parser` reads the header and checks every count and length against the remaining bytes before
//! using it. `layout` then computes the offset of each tensor's data and rejects data outside the file
//! or in another tensor's data. `decoder` is the public interface of the parser for headers in pieces.

mod decoder;
mod layout;
mod parser;

pub use decoder::{Decoder, Progress};

use crate::Limits;
use crate::bytes::Stop;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::header::Index;

impl Index {
    /// Parses the header of a file. `bytes` is the whole file, tensor data included.
    pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let len = bytes.len() as u64;
        let mut parser = parser::Parser::new(limits, Some(len));
        match parser.advance(bytes) {
            Ok(()) => parser.finish(bytes, &mut Err),
            Err(Stop::Fail(error)) => Err(error),
            // Unreachable: the parser knows the length of the file and has all bytes.
            Err(Stop::Need(end)) => Err(truncated(end, len)),
        }
    }
}

#[cold]
fn truncated(end: u64, len: u64) -> Error {
    Error::new(
        ErrorKind::Truncated,
        Detail::Ends { what: "header", needs: end.saturating_sub(len), remain: 0 },
    )
    .at(len)
}

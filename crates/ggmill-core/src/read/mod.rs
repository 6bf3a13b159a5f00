//! From bytes to an [`Index`]: one parser, fed a whole slice at once or piece by piece.
//!
//! `parser` walks the header and believes no count or length before it has held it against the
//! bytes that remain. `layout` then works out where each tensor's data lie and refuses what reaches
//! outside the file or into another tensor. `decoder` is the same parser for those who do the
//! reading themselves.

mod decoder;
mod layout;
mod parser;

pub use decoder::{Decoder, Progress};

use crate::bytes::Stop;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::{Index, Limits};

impl Index {
    /// Parses the header of a whole file: `bytes` are all of it, tensor data included.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let len = bytes.len() as u64;
        let mut parser = parser::Parser::new(limits, Some(len));
        match parser.advance(bytes) {
            Ok(()) => parser.finish(bytes, &mut Err),
            Err(Stop::Fail(error)) => Err(error),
            // The parser asks for bytes only within the length it was told, and it has them all.
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

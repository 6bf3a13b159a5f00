//! Bounds the work of encoding a text.

use crate::error::{Error, ErrorKind};

/// Steps for each byte of a text. A model takes one for each byte of a token that it compares with
/// the text at a position, and the longest tokens of vocabularies have fewer bytes.
const STEPS_A_BYTE: usize = 512;
/// Steps in addition to those.
const LEAST: usize = 1 << 20;

/// The remaining steps for a text. Without a limit, a vocabulary whose long tokens begin alike takes
/// time in proportion to the product of the text and the longest token.
#[derive(Debug, Default)]
pub(crate) struct Work {
    length: usize,
    left: usize,
    is_exceeded: bool,
}

impl Work {
    /// Starts a text of `length` bytes.
    pub(crate) fn begin(&mut self, length: usize) {
        self.length = length;
        self.left = length.saturating_mul(STEPS_A_BYTE).saturating_add(LEAST);
        self.is_exceeded = false;
    }

    /// Takes steps. Returns `false` if none are left: the caller stops, and the tokens are dropped.
    #[inline]
    #[must_use]
    pub(crate) fn take(&mut self, steps: usize) -> bool {
        match self.left.checked_sub(steps) {
            Some(left) => self.left = left,
            None => self.is_exceeded = true,
        }
        !self.is_exceeded
    }

    /// Fails if more steps were taken than there were.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        if !self.is_exceeded {
            return Ok(());
        }
        let message = format!(
            "more than {STEPS_A_BYTE} comparisons with tokens for each of {} bytes: the vocabulary \
             has long tokens that begin alike",
            self.length
        );
        Err(Error::new(ErrorKind::Limit, message))
    }
}

//! Reading an earlier index from start to end.

use std::io::{self, Read};
use std::sync::Arc;

use ggmill_core::ReadAt;

/// A source of bytes by position as one that is read in order.
#[derive(Debug)]
pub(crate) struct InOrder {
    source: Arc<dyn ReadAt>,
    position: u64,
}

impl InOrder {
    pub(crate) fn new(source: Arc<dyn ReadAt>, position: u64) -> Self {
        Self { source, position }
    }
}

impl Read for InOrder {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len().saturating_sub(self.position);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let out = out.get_mut(..len).unwrap_or_default();
        self.source
            .read_at(self.position, out)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.position = self.position.saturating_add(len as u64);
        Ok(len)
    }
}

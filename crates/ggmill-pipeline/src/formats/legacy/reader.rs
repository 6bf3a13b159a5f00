use ggmill_io::RandomAccess;

use super::WHISPER_FREQUENCIES;
use crate::{Error, ErrorKind, Result};

/// Bytes read at once.
const PIECE: u64 = 64 << 10;

/// Walks through a file from its beginning, reading what lies between tensor data.
pub(super) struct Reader<'a> {
    file: &'a RandomAccess,
    position: u64,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    start: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a RandomAccess) -> Self {
        Self { file, position: 0, buffer: Vec::new(), start: 0 }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.position >= self.file.len()
    }

    /// The next bytes.
    pub(super) fn take(&mut self, len: u32) -> Result<&[u8]> {
        let position = self.position;
        self.skip(len.into())?;
        let is_buffered =
            position >= self.start && self.position <= self.start + self.buffer.len() as u64;
        if !is_buffered {
            let read = (self.file.len() - position).min(PIECE.max(len.into()));
            self.buffer = vec![0; usize::try_from(read).unwrap_or(0)];
            self.file.read_at(position, &mut self.buffer)?;
            self.start = position;
        }
        let from = usize::try_from(position - self.start).unwrap_or(usize::MAX);
        Ok(self.buffer.get(from..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default())
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    /// Goes on without reading. Fails beyond the end of the file.
    pub(super) fn skip(&mut self, len: u64) -> Result<()> {
        let left = self.file.len().saturating_sub(self.position);
        if len > left {
            return Err(Error::new(
                ErrorKind::Checkpoint,
                format!("offset {:#x}: {len} bytes are needed, but {left} remain", self.position),
            ));
        }
        self.position += len;
        Ok(())
    }

    /// Goes on to a multiple.
    pub(super) fn align(&mut self, alignment: u64) -> Result<()> {
        self.skip(self.position.next_multiple_of(alignment) - self.position)
    }

    /// Whether what follows the magic number are eleven parameters and the table of mel filters.
    /// The position stays.
    pub(super) fn is_whisper(&mut self) -> bool {
        let position = self.position;
        let words: Vec<u32> = (0..13).map_while(|_| self.u32().ok()).collect();
        self.position = position;
        matches!(*words, [.., mels, _, rows, WHISPER_FREQUENCIES] if mels == rows && words.len() == 13)
    }
}

//! The journal of an edit in place: what a file is about to become, on the disk before the file is
//! touched.
//!
//! `docs/formats/journal.md` has the layout.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ggmill_core::Limits;
use xxhash_rust::xxh64::xxh64;

const MAGIC: &[u8; 8] = b"GGMILLJ1";
/// Bytes before those of the header: the magic and eight numbers.
const HEAD: usize = 9 * 8;
/// The checksum after everything.
const TAIL: usize = 8;

/// Where the journal of a file lies: beside it, under its name with `.ggmill-journal` appended.
///
/// ```
/// assert_eq!(ggmill_io::journal_path("models/a.gguf"), std::path::Path::new("models/a.gguf.ggmill-journal"));
/// ```
pub fn journal_path(file: impl AsRef<Path>) -> PathBuf {
    let mut path = OsString::from(file.as_ref());
    path.push(".ggmill-journal");
    path.into()
}

/// The journal that an interrupted edit has left beside a file, where there is one.
pub fn pending_journal(file: impl AsRef<Path>) -> Option<PathBuf> {
    let file = std::fs::canonicalize(file).ok()?;
    let path = journal_path(file);
    std::fs::symlink_metadata(&path).ok()?.is_file().then_some(path)
}

/// Bytes of the largest journal: those of the longest header that readers take, padded, and of what
/// is around them.
pub(crate) const MAX_JOURNAL: u64 = {
    let limits = Limits::DEFAULT;
    limits.header_bytes + 2 * limits.alignment as u64 + (HEAD + TAIL) as u64
};

/// The changes of an edit in place, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    /// The length of the file before.
    pub(crate) old_len: u64,
    /// How much is inserted at its beginning.
    pub(crate) grow: u64,
    /// Where, before, the bytes begin that stay as they are.
    pub(crate) kept_from: u64,
    /// [`checksum`] of the file up to there, before.
    pub(crate) before: u64,
    /// [`checksum`] of the file up to the same bytes, afterwards.
    pub(crate) after: u64,
    /// [`checksum`] of some of the bytes that stay.
    pub(crate) kept: u64,
    /// Where `bytes` go, once the file has grown.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The checksum of the journal.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    xxh64(bytes, 0)
}

/// How long the journal of this many bytes is.
pub(crate) fn journal_len(bytes: u64) -> u64 {
    bytes.saturating_add((HEAD + TAIL) as u64)
}

impl Journal {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(HEAD.saturating_add(self.bytes.len()).saturating_add(TAIL));
        out.extend_from_slice(MAGIC);
        let numbers = [
            self.old_len,
            self.grow,
            self.kept_from,
            self.before,
            self.after,
            self.kept,
            self.start,
            self.bytes.len() as u64,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.bytes);
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The journal, or `None` when these bytes are none, or not all of one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_last_chunk::<TAIL>()?;
        if checksum(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (head, bytes) = content.split_first_chunk::<HEAD>()?;
        let number = |place: usize| {
            Some(u64::from_le_bytes(head.get(place.checked_mul(8)?..)?.first_chunk().copied()?))
        };
        let [old_len, grow, kept_from, before, after, kept, start, len] = [
            number(1)?,
            number(2)?,
            number(3)?,
            number(4)?,
            number(5)?,
            number(6)?,
            number(7)?,
            number(8)?,
        ];
        let header_len = kept_from.checked_add(grow)?;
        let whole = head.starts_with(MAGIC)
            && len == bytes.len() as u64
            && kept_from <= old_len
            && old_len.checked_add(grow).is_some()
            && start.checked_add(len).is_some_and(|end| end <= header_len);
        whole.then(|| Self {
            old_len,
            grow,
            kept_from,
            before,
            after,
            kept,
            start,
            bytes: bytes.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        Journal {
            old_len: 1000,
            grow: 64,
            kept_from: 100,
            before: 1,
            after: 2,
            kept: 3,
            start: 10,
            bytes: (0..50).collect(),
        }
    }

    #[test]
    fn comes_back_as_it_was() {
        let encoded = journal().encode();
        assert_eq!(encoded.len() as u64, journal_len(50));
        assert_eq!(Journal::decode(&encoded), Some(journal()));
    }

    /// Any byte lost or changed is noticed.
    #[test]
    fn damage_is_noticed() {
        let encoded = journal().encode();
        for len in 0..encoded.len() {
            assert_eq!(Journal::decode(&encoded[..len]), None);
        }
        for place in 0..encoded.len() {
            let mut other = encoded.clone();
            other[place] ^= 0x10;
            assert_eq!(Journal::decode(&other), None);
        }
    }

    /// One that adds up and makes no sense is none either.
    #[test]
    fn nonsense_is_refused() {
        for nonsense in [
            Journal { kept_from: 1001, ..journal() },
            Journal { start: 115, ..journal() },
            Journal { start: u64::MAX, ..journal() },
            Journal { grow: u64::MAX, ..journal() },
        ] {
            assert_eq!(Journal::decode(&nonsense.encode()), None);
        }
    }
}

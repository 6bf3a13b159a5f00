//! The order of writes that makes an edit in place safe, independent of the file system so that
//! tests can inject faults:
//!
//! 1. Write and sync the journal. The file is unchanged; from here on, until the journal is
//!    removed, the edit can be finished.
//! 2. If the file grows: insert bytes and sync. The insertion is atomic, and the length of the file
//!    tells whether it happened.
//! 3. Write the new bytes and sync. If this write is torn, the journal has all of them.
//! 4. Remove the journal.
//!
//! `docs/formats/journal.md` has the layout of the journal.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use ggmill_core::Limits;
use xxhash_rust::xxh64::{Xxh64, xxh64};

/// Bytes of one read or write.
const PIECE: usize = 1 << 20;
/// Bytes at the beginning and at the end of the preserved data that the journal has a checksum of.
const SAMPLE: u64 = 64 << 10;

/// The file being edited and its journal. Tests implement it with a simulated disk that loses
/// power.
pub(crate) trait Medium {
    fn len(&self) -> io::Result<u64>;
    /// Fills `out` from `offset` on.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Inserts `len` bytes at the beginning of the file.
    fn insert(&mut self, len: u64) -> io::Result<()>;
    /// Removes `len` bytes at the beginning of the file.
    fn collapse(&mut self, len: u64) -> io::Result<()>;
    /// Makes everything written before durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Writes the journal atomically and syncs it. Fails if there is one.
    fn put_journal(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn journal(&self) -> io::Result<Option<Vec<u8>>>;
    fn remove_journal(&mut self) -> io::Result<()>;
}

/// Why an edit or a recovery stopped.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file is unchanged and the journal removed.
    Io(&'static str, io::Error),
    /// The file is partly written and the journal complete: recovery finishes the edit.
    Halfway(io::Error),
    /// The header is not the one that the change was computed from.
    Changed,
    /// The journal is damaged.
    DamagedJournal,
    /// The journal belongs to another file, or to another state of this one.
    ForeignJournal,
}

/// An old header and its replacement. Everything after the header is preserved; if the new one is
/// longer, the difference is inserted first.
///
/// ```
/// let change = ggmill_io::HeaderChange::new(b"name = old ", b"name = new ");
/// assert_eq!(change.range(), 7..10);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HeaderChange<'a> {
    old: &'a [u8],
    new: &'a [u8],
}

impl<'a> HeaderChange<'a> {
    /// Creates the change from `old`, the first bytes of a file, to `new`, which must not be
    /// shorter.
    pub fn new(old: &'a [u8], new: &'a [u8]) -> Self {
        Self { old, new }
    }

    /// Returns the number of bytes by which the file grows.
    pub fn grow(&self) -> u64 {
        (self.new.len() as u64).saturating_sub(self.old.len() as u64)
    }

    /// Returns the range of the new header that is written: from the first to the last byte that
    /// differs, or all of it if the file grows.
    pub fn range(&self) -> std::ops::Range<u64> {
        if self.grow() > 0 {
            return 0..self.new.len() as u64;
        }
        let same = |(old, new): &(&u8, &u8)| old == new;
        let start = self.old.iter().zip(self.new).take_while(same).count();
        if start == self.new.len() {
            return 0..0;
        }
        let suffix = self.old.iter().rev().zip(self.new.iter().rev()).take_while(same).count();
        start as u64..(self.new.len().saturating_sub(suffix)) as u64
    }

    /// Returns the length of the journal of this change in bytes.
    pub fn journal_len(&self) -> u64 {
        journal_len(self.range().end.saturating_sub(self.range().start))
    }

    fn written(&self) -> (u64, &'a [u8]) {
        let range = self.range();
        let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        (range.start, bounds.and_then(|(start, end)| self.new.get(start..end)).unwrap_or_default())
    }
}

/// The outcome of an edit in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[expect(clippy::exhaustive_enums, reason = "done or not done")]
pub enum Applied {
    /// The edit is done and synced.
    Done,
    /// The file system could not insert bytes. The file is unchanged.
    CannotGrow,
}

/// The outcome of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the states a crash can leave")]
pub enum Recovery {
    /// No journal: nothing was interrupted.
    Nothing,
    /// The edit had begun and is now finished.
    Finished,
    /// The edit had not begun and is discarded: the file is unchanged.
    Undone,
}

pub(crate) fn apply(medium: &mut impl Medium, change: HeaderChange<'_>) -> Result<Applied, Fault> {
    let cannot_read = |error| Fault::Io("cannot read", error);
    let old_len = medium.len().map_err(cannot_read)?;
    let kept_from = change.old.len() as u64;
    if kept_from > old_len || !is_at_start(medium, change.old).map_err(cannot_read)? {
        return Err(Fault::Changed);
    }
    let (start, bytes) = change.written();
    if bytes.is_empty() {
        return Ok(Applied::Done);
    }
    if change.journal_len() > MAX_JOURNAL {
        return Err(Fault::Io("cannot write the journal", io::ErrorKind::FileTooLarge.into()));
    }
    let grow = change.grow();
    let journal = Journal {
        old_len,
        grow,
        kept_from,
        before: checksum(change.old),
        after: checksum(change.new),
        kept: kept_sum(medium, kept_from, old_len).map_err(cannot_read)?,
        start,
        bytes: bytes.to_vec(),
    };
    medium
        .put_journal(&journal.encode())
        .map_err(|error| Fault::Io("cannot write the journal", error))?;
    if grow > 0
        && let Err(error) = medium.insert(grow).and_then(|()| medium.sync())
    {
        match medium.len() {
            Ok(len) if len == old_len => {
                medium.remove_journal().map_err(Fault::Halfway)?;
                return Ok(Applied::CannotGrow);
            }
            _ => return Err(Fault::Halfway(error)),
        }
    }
    if let Err(error) = write(medium, start, bytes).and_then(|()| medium.sync()) {
        return Err(match undo(medium, change) {
            Ok(()) => Fault::Io("cannot write", error),
            Err(_) => Fault::Halfway(error),
        });
    }
    medium.remove_journal().map_err(Fault::Halfway)?;
    Ok(Applied::Done)
}

/// Restores the file after a failed write, such as on a full disk. After a crash during this,
/// recovery uses the journal.
fn undo(medium: &mut impl Medium, change: HeaderChange<'_>) -> io::Result<()> {
    let grow = change.grow();
    write(medium, grow, change.old)?;
    medium.sync()?;
    if grow > 0 {
        medium.collapse(grow)?;
        medium.sync()?;
    }
    medium.remove_journal()
}

/// Finishes or undoes an interrupted edit. `is_valid` checks the resulting header, with its
/// padding, and the length of the file.
pub(crate) fn recover(
    medium: &mut impl Medium,
    is_valid: &dyn Fn(&[u8], u64) -> bool,
) -> Result<Recovery, Fault> {
    let cannot_read = |error| Fault::Io("cannot read", error);
    let Some(bytes) =
        medium.journal().map_err(|error| Fault::Io("cannot read the journal", error))?
    else {
        return Ok(Recovery::Nothing);
    };
    let journal = Journal::decode(&bytes).ok_or(Fault::DamagedJournal)?;
    let len = medium.len().map_err(cannot_read)?;
    if journal.grow > 0 && len == journal.old_len {
        let found = sum_with(medium, journal.kept_from, 0, &[]).map_err(cannot_read)?;
        if found != journal.before {
            return Err(Fault::ForeignJournal);
        }
        medium.remove_journal().map_err(|error| Fault::Io("cannot remove the journal", error))?;
        return Ok(Recovery::Undone);
    }
    let header_len = journal.kept_from.saturating_add(journal.grow);
    // All checks precede the first write, so that another file at this path is left unchanged.
    let matches = len == journal.old_len.saturating_add(journal.grow)
        && kept_sum(medium, header_len, len).map_err(cannot_read)? == journal.kept
        && sum_with(medium, header_len, journal.start, &journal.bytes).map_err(cannot_read)?
            == journal.after;
    if !matches || !is_valid(&header_with(medium, header_len, &journal).map_err(cannot_read)?, len)
    {
        return Err(Fault::ForeignJournal);
    }
    write(medium, journal.start, &journal.bytes)
        .and_then(|()| medium.sync())
        .map_err(Fault::Halfway)?;
    medium.remove_journal().map_err(Fault::Halfway)?;
    Ok(Recovery::Finished)
}

fn write(medium: &mut impl Medium, start: u64, bytes: &[u8]) -> io::Result<()> {
    let mut offset = start;
    for piece in bytes.chunks(PIECE) {
        medium.write(offset, piece)?;
        offset = offset.saturating_add(piece.len() as u64);
    }
    Ok(())
}

fn is_at_start(medium: &impl Medium, expected: &[u8]) -> io::Result<bool> {
    let mut buffer = vec![0; PIECE.min(expected.len())];
    let mut offset = 0u64;
    for piece in expected.chunks(PIECE) {
        let found = buffer.get_mut(..piece.len()).unwrap_or_default();
        medium.read(offset, found)?;
        if found != piece {
            return Ok(false);
        }
        offset = offset.saturating_add(piece.len() as u64);
    }
    Ok(true)
}

/// Returns the checksum of the first `len` bytes of the file as if `bytes` were written at `start`.
fn sum_with(medium: &impl Medium, len: u64, start: u64, bytes: &[u8]) -> io::Result<u64> {
    let mut sum = Xxh64::new(0);
    let end = start.saturating_add(bytes.len() as u64);
    sum_range(medium, 0, start.min(len), &mut sum)?;
    sum.update(bytes);
    sum_range(medium, end, len, &mut sum)?;
    Ok(sum.digest())
}

/// Returns the first `len` bytes of the file as if the bytes of the journal were written. The
/// caller has checked that the file has them.
fn header_with(medium: &impl Medium, len: u64, journal: &Journal) -> io::Result<Vec<u8>> {
    // A header is shorter than the longest journal.
    let len = usize::try_from(len.min(MAX_JOURNAL)).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut header = Vec::new();
    header.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    header.resize(len, 0);
    let mut offset = 0u64;
    for piece in header.chunks_mut(PIECE) {
        medium.read(offset, piece)?;
        offset = offset.saturating_add(piece.len() as u64);
    }
    let place = usize::try_from(journal.start).unwrap_or(usize::MAX);
    if let Some(written) =
        header.get_mut(place..).and_then(|rest| rest.get_mut(..journal.bytes.len()))
    {
        written.copy_from_slice(&journal.bytes);
    }
    Ok(header)
}

/// Returns the checksum of the beginning and the end of the preserved bytes, which identifies the
/// file and their position.
fn kept_sum(medium: &impl Medium, from: u64, to: u64) -> io::Result<u64> {
    let mut sum = Xxh64::new(0);
    sum_range(medium, from, to.min(from.saturating_add(SAMPLE)), &mut sum)?;
    sum_range(medium, from.max(to.saturating_sub(SAMPLE)), to, &mut sum)?;
    Ok(sum.digest())
}

fn sum_range(medium: &impl Medium, from: u64, to: u64, sum: &mut Xxh64) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(PIECE).min(PIECE)];
    let mut offset = from;
    while offset < to {
        let wanted = usize::try_from(to.saturating_sub(offset)).unwrap_or(PIECE).min(PIECE);
        let piece = buffer.get_mut(..wanted).unwrap_or_default();
        medium.read(offset, piece)?;
        sum.update(piece);
        offset = offset.saturating_add(wanted as u64);
    }
    Ok(())
}

const MAGIC: &[u8; 8] = b"GGMILLJ1";
/// Bytes before the header bytes: the magic and eight numbers.
const HEAD: usize = 9 * 8;
/// Bytes of the checksum at the end.
const TAIL: usize = 8;

/// Returns the path of a file's journal: the path of the file with `.ggmill-journal` appended.
///
/// ```
/// assert_eq!(ggmill_io::journal_path("models/a.gguf"), std::path::Path::new("models/a.gguf.ggmill-journal"));
/// ```
pub fn journal_path(file: impl AsRef<Path>) -> PathBuf {
    let mut path = OsString::from(file.as_ref());
    path.push(".ggmill-journal");
    path.into()
}

/// Returns the path of the journal that an interrupted edit has left next to a file, if it exists.
pub fn pending_journal(file: impl AsRef<Path>) -> Option<PathBuf> {
    let file = std::fs::canonicalize(file).ok()?;
    let path = journal_path(file);
    std::fs::symlink_metadata(&path).ok()?.is_file().then_some(path)
}

/// Bytes of the largest journal: the longest header that readers accept, padded, plus head and
/// tail.
pub(crate) const MAX_JOURNAL: u64 = {
    let limits = Limits::DEFAULT;
    limits.header_bytes + 2 * limits.alignment as u64 + (HEAD + TAIL) as u64
};

/// The journal of an edit in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    /// The length of the file before the edit.
    old_len: u64,
    /// Bytes inserted at its beginning.
    pub(crate) grow: u64,
    /// The offset of the preserved bytes before the edit.
    kept_from: u64,
    /// [`checksum`] of the bytes before `kept_from`, before the edit.
    pub(crate) before: u64,
    /// [`checksum`] of the bytes before the preserved ones, after the edit.
    pub(crate) after: u64,
    /// [`checksum`] of a sample of the preserved bytes ([`SAMPLE`]).
    pub(crate) kept: u64,
    /// The offset of `bytes` in the grown file.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The checksum that journals use.
fn checksum(bytes: &[u8]) -> u64 {
    xxh64(bytes, 0)
}

/// Returns the length of a journal of `bytes` changed bytes.
fn journal_len(bytes: u64) -> u64 {
    bytes.saturating_add((HEAD + TAIL) as u64)
}

impl Journal {
    fn encode(&self) -> Vec<u8> {
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

    /// Decodes a journal; `None` if it is damaged or truncated.
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
        let is_valid = head.starts_with(MAGIC)
            && len == bytes.len() as u64
            && kept_from <= old_len
            && old_len.checked_add(grow).is_some()
            && start.checked_add(len).is_some_and(|end| end <= header_len);
        is_valid.then(|| Self {
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
    fn encoding_round_trips() {
        let encoded = journal().encode();
        assert_eq!(encoded.len() as u64, journal_len(50));
        assert_eq!(Journal::decode(&encoded), Some(journal()));
    }

    /// Detects every truncation and every changed byte.
    #[test]
    fn damage_is_detected() {
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

    /// Refuses journals with a correct checksum and inconsistent numbers.
    #[test]
    fn inconsistent_journals_are_refused() {
        for inconsistent in [
            Journal { kept_from: 1001, ..journal() },
            Journal { start: 115, ..journal() },
            Journal { start: u64::MAX, ..journal() },
            Journal { grow: u64::MAX, ..journal() },
        ] {
            assert_eq!(Journal::decode(&inconsistent.encode()), None);
        }
    }
}

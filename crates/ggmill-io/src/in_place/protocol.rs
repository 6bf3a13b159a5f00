//! The order of writes that makes an edit in place safe, apart from the files it is done to.
//!
//! 1. The journal, whole and on the disk. The file is as it was: from here on, until the journal
//!    goes, it can be finished.
//! 2. When the file is to grow: the insertion, and a sync. It happens or does not, and the length
//!    of the file says which.
//! 3. The new bytes, and a sync. Torn or not, the journal has them all.
//! 4. The journal goes.

use std::io;

use xxhash_rust::xxh64::Xxh64;

use crate::journal::{Journal, MAX_JOURNAL, checksum, journal_len};

/// Bytes that are read or written at once.
const PIECE: usize = 1 << 20;
/// How much of the beginning and of the end of the preserved bytes is checked against the journal.
const SAMPLE: u64 = 64 << 10;

/// A file being edited and its journal, as far as the protocol needs to know them. Tests have one
/// that loses power.
pub(crate) trait Medium {
    fn len(&self) -> io::Result<u64>;
    /// Fills `out` from `offset` on.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Inserts `len` bytes at the beginning of the file.
    fn insert(&mut self, len: u64) -> io::Result<()>;
    /// Takes `len` bytes away from the beginning of the file.
    fn collapse(&mut self, len: u64) -> io::Result<()>;
    /// Everything before is on the disk when it returns.
    fn sync(&mut self) -> io::Result<()>;
    /// Writes the journal: whole or not at all, and on the disk when it returns. Fails when there
    /// is one.
    fn put_journal(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn journal(&self) -> io::Result<Option<Vec<u8>>>;
    fn remove_journal(&mut self) -> io::Result<()>;
}

/// Why an edit or a recovery stopped.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file is as it was, and the journal is gone.
    Io(&'static str, io::Error),
    /// The file is half written and the journal is complete: a recovery finishes it.
    Halfway(io::Error),
    /// The header is no longer the one the change was made for.
    Changed,
    /// There is a journal, and it is damaged.
    Damaged,
    /// There is a journal, and it belongs to another file or to another state of this one.
    NotIts,
}

/// A header and the one that takes its place. Everything after stays as it is; when the new one is
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
    /// The change from `old`, the first bytes of a file, to `new`, which is as long or longer.
    pub fn new(old: &'a [u8], new: &'a [u8]) -> Self {
        Self { old, new }
    }

    /// How much longer the file becomes.
    pub fn grow(&self) -> u64 {
        (self.new.len() as u64).saturating_sub(self.old.len() as u64)
    }

    /// Which bytes of the new header are written: from the first to the last that differ, or all of
    /// them when the file grows.
    pub fn range(&self) -> std::ops::Range<u64> {
        if self.grow() > 0 {
            return 0..self.new.len() as u64;
        }
        let same = |(old, new): &(&u8, &u8)| old == new;
        let start = self.old.iter().zip(self.new).take_while(same).count();
        if start == self.new.len() {
            return 0..0;
        }
        let behind = self.old.iter().rev().zip(self.new.iter().rev()).take_while(same).count();
        start as u64..(self.new.len().saturating_sub(behind)) as u64
    }

    /// Bytes of the journal that goes before it.
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
    /// It is done, and on the disk.
    Done,
    /// The file system would not insert bytes. The file is as it was.
    CannotGrow,
}

/// The journal found beside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the states a crash can leave")]
pub enum Recovery {
    /// No journal: nothing was interrupted.
    Nothing,
    /// The edit had begun and is now done.
    Finished,
    /// The edit had not begun and never will: the file is as it was before.
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

/// Puts everything back after a write that failed, such as on a full disk. A crash meanwhile finds
/// the journal.
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

/// Goes on with an edit that was interrupted. `is_good` says of a header, with its padding, and of
/// the length of the file whether the file may become that.
pub(crate) fn recover(
    medium: &mut impl Medium,
    is_good: &dyn Fn(&[u8], u64) -> bool,
) -> Result<Recovery, Fault> {
    let cannot_read = |error| Fault::Io("cannot read", error);
    let Some(bytes) =
        medium.journal().map_err(|error| Fault::Io("cannot read the journal", error))?
    else {
        return Ok(Recovery::Nothing);
    };
    let journal = Journal::decode(&bytes).ok_or(Fault::Damaged)?;
    let len = medium.len().map_err(cannot_read)?;
    if journal.grow > 0 && len == journal.old_len {
        let found = sum_with(medium, journal.kept_from, 0, &[]).map_err(cannot_read)?;
        if found != journal.before {
            return Err(Fault::NotIts);
        }
        medium.remove_journal().map_err(|error| Fault::Io("cannot remove the journal", error))?;
        return Ok(Recovery::Undone);
    }
    let header_len = journal.kept_from.saturating_add(journal.grow);
    // All of this is asked before anything is written: a file that was put in the place of the
    // interrupted one is left alone.
    let is_its = len == journal.old_len.saturating_add(journal.grow)
        && kept_sum(medium, header_len, len).map_err(cannot_read)? == journal.kept
        && sum_with(medium, header_len, journal.start, &journal.bytes).map_err(cannot_read)?
            == journal.after;
    if !is_its || !is_good(&header_with(medium, header_len, &journal).map_err(cannot_read)?, len) {
        return Err(Fault::NotIts);
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

/// The checksum of the first `len` bytes of the file, as they would be with `bytes` written at
/// `start`.
fn sum_with(medium: &impl Medium, len: u64, start: u64, bytes: &[u8]) -> io::Result<u64> {
    let mut sum = Xxh64::new(0);
    let end = start.saturating_add(bytes.len() as u64);
    sum_range(medium, 0, start.min(len), &mut sum)?;
    sum.update(bytes);
    sum_range(medium, end, len, &mut sum)?;
    Ok(sum.digest())
}

/// The first `len` bytes of the file, as they would be with those of the journal written. The sum
/// of them was right, so that the file has them.
fn header_with(medium: &impl Medium, len: u64, journal: &Journal) -> io::Result<Vec<u8>> {
    // What is after the largest journal cannot be a header.
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

/// The checksum of the beginning and the end of what stays: enough to tell whether it is where it
/// should be, and whose it is.
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

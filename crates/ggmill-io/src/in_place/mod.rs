//! Changing the header of a file in place, so that a crash at any instant leaves the old file or
//! the new one.

mod disk;
mod protocol;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata, TryLockError};
use std::path::Path;

use ggmill_core::{Decoder, Limits};

use crate::error::{Detail, EditFault, Error, Result};
use crate::journal::{journal_path, pending_journal};
use crate::random_access::not_regular;
use disk::Disk;
use protocol::Fault;

pub use protocol::{Applied, HeaderChange, Recovery};

/// A file opened to be edited where it lies, and locked against other editors until this is
/// dropped.
///
/// [`InPlace::apply`] writes a journal beside the file ([`journal_path`]) before it touches
/// anything. Whatever happens then, the next [`InPlace::open`] says so and [`InPlace::recover`]
/// finishes the edit or undoes it.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("model.gguf");
/// # std::fs::write(&path, b"GGUF and more")?;
/// use ggmill_io::{Applied, HeaderChange, InPlace};
/// let mut file = InPlace::open(&path)?;
/// assert_eq!(file.apply(HeaderChange::new(b"GGUF and", b"GGUF but"))?, Applied::Done);
/// assert_eq!(std::fs::read(&path)?, b"GGUF but more");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct InPlace {
    disk: Disk,
    /// As it was when it was opened.
    metadata: Metadata,
}

impl InPlace {
    /// Opens a file to edit it.
    ///
    /// Fails for a symbolic link (the error names what it leads to), for a file that is read-only
    /// or no regular file, when another program holds the lock, and with
    /// [`ErrorKind::Journal`](crate::ErrorKind::Journal) when there is a journal beside it:
    /// whichever program put it there, nothing is written because of it before [`InPlace::recover`]
    /// is asked to.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let this = Self::lock(path)?;
        match pending_journal(path) {
            Some(journal) => Err(Error::new(path, Detail::Edit(EditFault::Pending { journal }))),
            None => Ok(this),
        }
    }

    /// Finishes or undoes an edit that was interrupted, and says which.
    ///
    /// Fails as [`InPlace::open`] does, and when the journal is damaged or not this file's: the
    /// file must be the one its checksums say, and what it would become must be a GGUF file
    /// whose tensors lie in the data that the edit left alone.
    pub fn recover(path: impl AsRef<Path>) -> Result<Recovery> {
        let path = path.as_ref();
        let mut this = Self::lock(path)?;
        protocol::recover(&mut this.disk, &is_gguf).map_err(|fault| explain(path, fault))
    }

    fn lock(path: &Path) -> Result<Self> {
        refuse_link(path)?;
        let disk = Disk::open(path)?;
        let metadata = disk.metadata()?;
        if !metadata.is_file() {
            return Err(not_regular(path, &metadata));
        }
        if metadata.permissions().readonly() {
            return Err(Error::new(path, Detail::Edit(EditFault::ReadOnly)));
        }
        // Where there are no locks, the check of the header before the first write has to do.
        if let Err(TryLockError::WouldBlock) = disk.lock() {
            return Err(Error::new(path, Detail::Edit(EditFault::Busy)));
        }
        Ok(Self { disk, metadata })
    }

    /// The size of the blocks in which the file system inserts bytes into a file, or `None` where
    /// it does not. Tried on a file without a name beside this one.
    pub fn insert_block(&self) -> Option<u64> {
        self.disk.insert_block()
    }

    /// How many names (hard links) the file has. An edit in place changes what all of them show.
    pub fn names(&self) -> u64 {
        #[cfg(unix)]
        return std::os::unix::fs::MetadataExt::nlink(&self.metadata);
        #[cfg(not(unix))]
        return 1;
    }

    /// Changes the header and makes sure that it is on the disk. Fails with the file as it was,
    /// unless the error's kind is [`Journal`](crate::ErrorKind::Journal): then
    /// [`InPlace::recover`] goes on.
    ///
    /// When the header grows, bytes are inserted at the beginning of the file, by a multiple of
    /// [`InPlace::insert_block`].
    pub fn apply(&mut self, change: HeaderChange<'_>) -> Result<Applied> {
        self.check_unchanged()?;
        let applied = protocol::apply(&mut self.disk, change)
            .map_err(|fault| explain(self.disk.path(), fault))?;
        self.metadata = self.disk.metadata()?;
        Ok(applied)
    }

    /// Fails when something else has changed the file since it was opened, or put another one in
    /// its place. A program that replaces the file with a changed copy asks this last.
    pub fn check_unchanged(&self) -> Result<()> {
        let path = self.disk.path();
        let now = self.disk.metadata()?;
        let modified = |metadata: &Metadata| metadata.modified().ok();
        let same = now.len() == self.metadata.len()
            && modified(&now) == modified(&self.metadata)
            && self.disk.is_still_named().unwrap_or(false);
        if same { Ok(()) } else { Err(Error::new(path, Detail::Edit(EditFault::Changed))) }
    }
}

/// Whether these are the bytes of a file of this length before its tensor data, which begin right
/// after them.
fn is_gguf(header: &[u8], file_len: u64) -> bool {
    let mut decoder = Decoder::new(Some(file_len), &Limits::default());
    let Ok(parsed) = decoder.feed(header).and_then(|_| decoder.finish()) else { return false };
    let len = header.len() as u64;
    // Of a file without tensors nothing has to be after the header.
    parsed.index().data_offset() == len
        || parsed.tensors().is_empty() && parsed.index().header_len() <= len
}

fn refuse_link(path: &Path) -> Result<()> {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    match std::fs::canonicalize(path) {
        Ok(target) if is_link => Err(Error::new(path, Detail::Edit(EditFault::Link { target }))),
        _ => Ok(()),
    }
}

fn explain(path: &Path, fault: Fault) -> Error {
    let fault = match fault {
        Fault::Io(action, source) => return Error::io(path, action, source),
        Fault::Changed => EditFault::Changed,
        Fault::Halfway(source) => EditFault::Halfway { source },
        Fault::Damaged => EditFault::Damaged { journal: journal_path(path) },
        Fault::NotIts => EditFault::NotIts { journal: journal_path(path) },
    };
    Error::new(path, Detail::Edit(fault))
}

/// Whether two open files are one, as far as the system can tell.
fn same_identity(a: &File, b: &Path) -> std::io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (a, b) = (a.metadata()?, std::fs::metadata(b)?);
        Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
    }
    #[cfg(not(unix))]
    {
        Ok(same_file::Handle::from_file(a.try_clone()?)? == same_file::Handle::from_path(b)?)
    }
}

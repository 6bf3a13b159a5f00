//! Editing the header of a file in place, so that a crash at any instant leaves the old file or the
//! new one.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ggmill_core::{Decoder, Limits, Sink as _};

use self::protocol::{Fault, MAX_JOURNAL, Medium};
use crate::error::{Detail, EditFault, Error, ErrorKind, Result};
#[cfg(target_os = "linux")]
use crate::file_sink::directory_of;
use crate::file_sink::{FileSink, Overwrite};
use crate::random_access::{not_regular, read_exact, write_all};

pub use self::protocol::{Applied, HeaderChange, Recovery, journal_path, pending_journal};

mod protocol;
#[cfg(test)]
mod tests;

/// A file opened for editing in place, locked against other editors until this is dropped.
///
/// [`InPlace::apply`] writes a journal next to the file ([`journal_path`]) before it changes the
/// file. After a crash, the next [`InPlace::open`] fails, and [`InPlace::recover`] finishes or
/// undoes the edit.
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
    /// The metadata at opening.
    metadata: Metadata,
}

impl InPlace {
    /// Opens a file for editing.
    ///
    /// Fails for a symbolic link (the error names its target), a read-only file, a file that is not
    /// regular, and if another program holds the lock. Fails with
    /// [`ErrorKind::Journal`](crate::ErrorKind::Journal) if a journal is next to the file: its
    /// writes are applied only by [`InPlace::recover`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let this = Self::lock(path)?;
        match pending_journal(path) {
            Some(journal) => {
                Err(Error::new(path, Detail::Edit(EditFault::PendingJournal { journal })))
            }
            None => Ok(this),
        }
    }

    /// Finishes or undoes an interrupted edit, and returns which.
    ///
    /// Fails like [`InPlace::open`], and if the journal is damaged or belongs to another file: the
    /// file must match its checksums, and the result must be a GGUF file whose tensors lie in the
    /// bytes that the edit does not change.
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
        // Without file locks, only the check of the header before the first write protects the
        // file.
        if let Err(TryLockError::WouldBlock) = disk.lock() {
            return Err(Error::new(path, Detail::Edit(EditFault::Busy)));
        }
        Ok(Self { disk, metadata })
    }

    /// Returns the block size in which the file system can insert bytes into a file, or `None` if
    /// it cannot. Tests it on a temporary file in the same directory.
    pub fn insert_block(&self) -> Option<u64> {
        self.disk.insert_block()
    }

    /// Returns the number of hard links. An edit in place affects all of them.
    pub fn names(&self) -> u64 {
        #[cfg(unix)]
        return std::os::unix::fs::MetadataExt::nlink(&self.metadata);
        #[cfg(not(unix))]
        return 1;
    }

    /// Changes the header and syncs it. On failure the file is unchanged, unless the error has the
    /// kind [`Journal`](crate::ErrorKind::Journal), which requires [`InPlace::recover`].
    ///
    /// If the header grows, bytes are inserted at the beginning of the file; the growth must be a
    /// multiple of [`InPlace::insert_block`].
    pub fn apply(&mut self, change: HeaderChange<'_>) -> Result<Applied> {
        self.check_unchanged()?;
        let applied = protocol::apply(&mut self.disk, change)
            .map_err(|fault| explain(self.disk.path(), fault))?;
        if applied == Applied::CannotGrow
            && let Ok(before) = self.metadata.modified()
        {
            // Linux updates the time even if it refuses to insert. Other readers would treat the
            // unchanged file as a different one.
            let _ = self.disk.file.set_modified(before);
        }
        self.metadata = self.disk.metadata()?;
        Ok(applied)
    }

    /// Fails if another program has changed or replaced the file since it was opened. A program
    /// that replaces the file with an edited copy checks this last.
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

/// Returns `true` if `header` parses as the header of a file of `file_len` bytes and the tensor
/// data begins right after it.
fn is_gguf(header: &[u8], file_len: u64) -> bool {
    let mut decoder = Decoder::new(Some(file_len), &Limits::default());
    let Ok(parsed) = decoder.feed(header).and_then(|_| decoder.finish()) else { return false };
    let len = header.len() as u64;
    // A file without tensors need not be padded.
    parsed.data_offset() == len || parsed.tensors().is_empty() && parsed.header_len() <= len
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
        Fault::DamagedJournal => EditFault::DamagedJournal { journal: journal_path(path) },
        Fault::ForeignJournal => EditFault::ForeignJournal { journal: journal_path(path) },
    };
    Error::new(path, Detail::Edit(fault))
}

/// Returns `true` if `path` leads to the open `file`.
fn is_file_at(file: &File, path: &Path) -> std::io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (file, at_path) = (file.metadata()?, std::fs::metadata(path)?);
        Ok((file.dev(), file.ino()) == (at_path.dev(), at_path.ino()))
    }
    #[cfg(not(unix))]
    {
        Ok(same_file::Handle::from_file(file.try_clone()?)? == same_file::Handle::from_path(path)?)
    }
}

/// The [`Medium`] of real files.
#[derive(Debug)]
struct Disk {
    path: PathBuf,
    file: File,
    journal: PathBuf,
    /// If true, bytes were inserted or removed since the last sync, so it must include the
    /// metadata.
    has_moved: bool,
}

impl Disk {
    fn open(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // Opening a named pipe must not block.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
        );
        let file = options.open(path).map_err(|source| match std::fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => not_regular(path, &metadata),
            _ => Error::io(path, "cannot open for writing", source),
        })?;
        Ok(Self { path: path.to_owned(), file, journal: journal_path(path), has_moved: false })
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn metadata(&self) -> Result<Metadata> {
        self.file
            .metadata()
            .map_err(|source| Error::io(&self.path, "cannot read its metadata", source))
    }

    fn lock(&self) -> std::result::Result<(), TryLockError> {
        self.file.try_lock()
    }

    /// Returns `true` if the path still leads to this file.
    fn is_still_named(&self) -> io::Result<bool> {
        is_file_at(&self.file, &self.path)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as on Linux")]
    fn insert_block(&self) -> Option<u64> {
        None
    }

    /// Tests insertion on two blocks of a temporary file: there is no call to query for support.
    #[cfg(target_os = "linux")]
    fn insert_block(&self) -> Option<u64> {
        let block = rustix::fs::fstatfs(&self.file).ok()?.f_bsize;
        let block = u64::try_from(block)
            .ok()
            .filter(|block| block.is_power_of_two() && (512..=1 << 20).contains(block))?;
        let mut trial = crate::temporary::Temporary::create_in(directory_of(&self.path)).ok()?;
        let trial = trial.file().ok()?;
        let twice = usize::try_from(block.checked_mul(2)?).ok()?;
        write_all(trial, 0, &vec![1; twice]).ok()?;
        shift(trial, rustix::fs::FallocateFlags::INSERT_RANGE, block).ok()?;
        shift(trial, rustix::fs::FallocateFlags::COLLAPSE_RANGE, block).ok()?;
        Some(block)
    }
}

#[cfg(target_os = "linux")]
fn shift(file: &File, how: rustix::fs::FallocateFlags, len: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, how, 0, len) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

impl Medium for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_exact(&self.file, offset, out)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all(&self.file, offset, bytes)
    }

    #[cfg(target_os = "linux")]
    fn insert(&mut self, len: u64) -> io::Result<()> {
        self.has_moved = true;
        shift(&self.file, rustix::fs::FallocateFlags::INSERT_RANGE, len)
    }

    #[cfg(target_os = "linux")]
    fn collapse(&mut self, len: u64) -> io::Result<()> {
        self.has_moved = true;
        shift(&self.file, rustix::fs::FallocateFlags::COLLAPSE_RANGE, len)
    }

    #[cfg(not(target_os = "linux"))]
    fn insert(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(not(target_os = "linux"))]
    fn collapse(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        // Overwriting bytes needs no metadata sync, which would wait for the writes of other
        // programs in the file system's journal.
        if !self.has_moved {
            return self.file.sync_data();
        }
        self.file.sync_all()?;
        self.has_moved = false;
        Ok(())
    }

    fn put_journal(&mut self, bytes: &[u8]) -> io::Result<()> {
        let put = || {
            let mut sink = FileSink::create(&self.journal, Overwrite::Refuse)?;
            sink.append(bytes)?;
            sink.commit()
        };
        put().map_err(|error: Error| match error.kind() {
            ErrorKind::Exists => io::ErrorKind::AlreadyExists.into(),
            _ => error.io_error().map_or_else(
                || io::Error::other(error.to_string()),
                |source| io::Error::new(source.kind(), error.to_string()),
            ),
        })
    }

    fn journal(&self) -> io::Result<Option<Vec<u8>>> {
        match std::fs::symlink_metadata(&self.journal) {
            // Longer than any valid journal: return no bytes, which do not decode.
            Ok(metadata) if metadata.is_file() && metadata.len() > MAX_JOURNAL => {
                Ok(Some(Vec::new()))
            }
            Ok(metadata) if metadata.is_file() => {
                let mut bytes = Vec::new();
                File::open(&self.journal)?.take(MAX_JOURNAL).read_to_end(&mut bytes)?;
                Ok(Some(bytes))
            }
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no regular file with its name",
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove_journal(&mut self) -> io::Result<()> {
        // No sync of the directory: if the name reappears after a power loss, the file already has
        // the journaled content, and recovery removes the journal again.
        std::fs::remove_file(&self.journal)
    }
}

//! The medium that is a file on a disk.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ggmill_core::Sink as _;

use super::protocol::Medium;
use super::same_identity;
#[cfg(target_os = "linux")]
use crate::atomic::directory_of;
use crate::atomic::{FileSink, Overwrite};
use crate::error::{Error, ErrorKind, Result};
use crate::journal::{MAX_JOURNAL, journal_path};
use crate::positioned;

#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    file: File,
    journal: PathBuf,
    /// Whether bytes have moved since the last sync, so that more than data must reach the disk.
    moved: bool,
}

impl Disk {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // As for reading: never wait for the other end of a pipe.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
        );
        let file = options.open(path).map_err(|source| match std::fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                crate::random_access::not_regular(path, &metadata)
            }
            _ => Error::io(path, "cannot open for writing", source),
        })?;
        Ok(Self { path: path.to_owned(), file, journal: journal_path(path), moved: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn metadata(&self) -> Result<Metadata> {
        self.file
            .metadata()
            .map_err(|source| Error::io(&self.path, "cannot read its metadata", source))
    }

    pub(super) fn lock(&self) -> std::result::Result<(), TryLockError> {
        self.file.try_lock()
    }

    /// Whether the path still leads to this file.
    pub(super) fn is_still_named(&self) -> io::Result<bool> {
        same_identity(&self.file, &self.path)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as on Linux")]
    pub(super) fn insert_block(&self) -> Option<u64> {
        None
    }

    /// Tries it on two blocks of a hidden file: the system cannot be asked.
    #[cfg(target_os = "linux")]
    pub(super) fn insert_block(&self) -> Option<u64> {
        let block = rustix::fs::fstatfs(&self.file).ok()?.f_bsize;
        let block = u64::try_from(block)
            .ok()
            .filter(|block| block.is_power_of_two() && (512..=1 << 20).contains(block))?;
        let mut trial = crate::temporary::Temporary::create_in(directory_of(&self.path)).ok()?;
        let trial = trial.file().ok()?;
        let twice = usize::try_from(block.checked_mul(2)?).ok()?;
        positioned::write_all(trial, 0, &vec![1; twice]).ok()?;
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
        positioned::read_exact(&self.file, offset, out)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        positioned::write_all(&self.file, offset, bytes)
    }

    #[cfg(target_os = "linux")]
    fn insert(&mut self, len: u64) -> io::Result<()> {
        self.moved = true;
        shift(&self.file, rustix::fs::FallocateFlags::INSERT_RANGE, len)
    }

    #[cfg(target_os = "linux")]
    fn collapse(&mut self, len: u64) -> io::Result<()> {
        self.moved = true;
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
        // Bytes written over others need no change to the file system's own records, whose commit
        // waits for what everybody else writes.
        if !self.moved {
            return self.file.sync_data();
        }
        self.file.sync_all()?;
        self.moved = false;
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
            // Longer than any that was ever written: as much as none of its bytes.
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
        // Without a sync of the directory: should the name come back after a loss of power, the
        // file already is what the journal says, and it goes again.
        std::fs::remove_file(&self.journal)
    }
}

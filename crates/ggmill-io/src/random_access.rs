use std::any::Any;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ggmill_core::{RawStr, ReadAt};

use crate::error::{Detail, EditFault, Error, Result, shown};
use crate::in_place::pending_journal;

/// A file with positioned reads and no cursor, so that several threads can share it: a local
/// regular file, or a [remote](Self::remote) one.
///
/// A model from [`open`](crate::open) reads from one of these; use it directly for files of other
/// formats.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("weights.bin");
/// # std::fs::write(&path, b"0123456789")?;
/// let file = ggmill_io::RandomAccess::open(&path)?;
/// let mut middle = [0; 4];
/// file.read_at(3, &mut middle)?;
/// assert_eq!((&middle, file.len()), (b"3456", 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RandomAccess {
    content: Content,
    path: PathBuf,
    len: u64,
}

#[derive(Debug)]
enum Content {
    Local {
        /// `None` after [`RandomAccess::close_idle`]: each read reopens the file.
        file: RwLock<Option<Arc<File>>>,
        /// The metadata at opening: the identity of the file and its modification time.
        metadata: Box<Metadata>,
    },
    Remote(Arc<dyn ReadAt>),
}

impl RandomAccess {
    /// Opens a local file. Fails if it cannot be opened, and without blocking if it is a directory,
    /// a pipe, a socket or a device.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = open(path)?;
        let metadata = file
            .metadata()
            .map_err(|source| Error::io(path, "cannot read its metadata", source))?;
        if !metadata.is_file() {
            return Err(not_regular(path, &metadata));
        }
        let (path, len) = (path.to_owned(), metadata.len());
        let file = RwLock::new(Some(Arc::new(file)));
        Ok(Self { content: Content::Local { file, metadata: Box::new(metadata) }, path, len })
    }

    /// Wraps a remote file. `path` is its address, used in messages.
    ///
    /// ```
    /// let file = ggmill_io::RandomAccess::remote("hf://owner/name/config.json", b"{}".to_vec());
    /// assert_eq!(file.read_whole(1 << 20)?, b"{}");
    /// assert!(file.is_remote());
    /// # Ok::<(), ggmill_io::Error>(())
    /// ```
    pub fn remote(path: impl Into<PathBuf>, source: impl ReadAt + 'static) -> Self {
        let (path, len) = (path.into(), source.len());
        Self { content: Content::Remote(Arc::new(source)), path, len }
    }

    /// Returns `true` for a remote file, which has no local path.
    pub fn is_remote(&self) -> bool {
        matches!(self.content, Content::Remote(_))
    }

    /// Closes the file handle. Each later read reopens the file, and fails if the path no longer
    /// leads to the same unchanged file. Use this for sets of more than
    /// [`MAX_OPEN_FILES`](crate::MAX_OPEN_FILES) files.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("weights.bin");
    /// # std::fs::write(&path, b"0123456789")?;
    /// let file = ggmill_io::RandomAccess::open(&path)?;
    /// file.close_idle();
    /// let mut middle = [0; 4];
    /// file.read_at(3, &mut middle)?;
    /// assert_eq!(&middle, b"3456");
    /// std::fs::remove_file(&path)?;
    /// assert!(file.read_at(3, &mut middle).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close_idle(&self) {
        if let Content::Local { file, .. } = &self.content {
            *file.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Returns the path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its length in bytes at opening.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the file system's metadata at opening; `None` for a [remote](Self::remote) file.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("weights.bin");
    /// # std::fs::write(&path, b"0123456789")?;
    /// let file = ggmill_io::RandomAccess::open(&path)?;
    /// assert_eq!(file.metadata().map(|metadata| metadata.len()), Some(10));
    /// assert!(ggmill_io::RandomAccess::remote("config.json", b"{}".to_vec()).metadata().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metadata(&self) -> Option<&Metadata> {
        match &self.content {
            Content::Local { metadata, .. } => Some(metadata),
            Content::Remote(_) => None,
        }
    }

    /// Returns `true` if it was empty at opening.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `out` with the bytes from `offset` on. Fails if the file ends earlier, for example
    /// because another program truncated it.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > self.len {
            return Err(Error::new(
                &self.path,
                Detail::Outside { start: offset, end, len: self.len },
            ));
        }
        let file = match self.local() {
            Ok(file) => file?,
            Err(source) => {
                return source
                    .read_at(offset, out)
                    .map_err(|error| Error::new(&self.path, Detail::Remote(error)));
            }
        };
        let mut filled = 0;
        while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let position = offset.saturating_add(filled as u64);
            match read_once(&file, position, rest) {
                Ok(0) => {
                    return Err(Error::new(
                        &self.path,
                        Detail::Outside { start: offset, end, len: position },
                    ));
                }
                Ok(read) => filled = filled.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io(&self.path, "cannot read", source)),
            }
        }
        Ok(())
    }

    /// Fails if another program has written to the file since it was opened: bytes read from it may
    /// mix old and new content. A change within one tick of the file system's clock, a few
    /// milliseconds, is not detected.
    ///
    /// Also fails if an edit of the file was interrupted
    /// ([`ErrorKind::Journal`](crate::ErrorKind::Journal)): its content is neither the old file nor
    /// the new one.
    pub fn verify(&self) -> Result<()> {
        let file = match self.local() {
            Ok(file) => file?,
            Err(source) => {
                return source
                    .verify()
                    .map_err(|error| Error::new(&self.path, Detail::Remote(error)));
            }
        };
        let Content::Local { metadata, .. } = &self.content else { return Ok(()) };
        self.check(&file, metadata)?;
        match pending_journal(&self.path) {
            Some(journal) => {
                Err(Error::new(&self.path, Detail::Edit(EditFault::PendingJournal { journal })))
            }
            None => Ok(()),
        }
    }

    fn check(&self, file: &File, opened: &Metadata) -> Result<()> {
        let metadata = file
            .metadata()
            .map_err(|source| Error::io(&self.path, "cannot read its metadata", source))?;
        let same = metadata.len() == self.len
            && metadata.modified().ok() == opened.modified().ok()
            && is_one_file(&metadata, opened);
        if same { Ok(()) } else { Err(Error::new(&self.path, Detail::Changed)) }
    }

    /// Reads the whole file, for small ones such as a configuration. Fails before reading if it has
    /// more than `limit` bytes.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("config.json");
    /// # std::fs::write(&path, b"{}")?;
    /// let file = ggmill_io::RandomAccess::open(&path)?;
    /// assert_eq!(file.read_whole(1 << 20)?, b"{}");
    /// assert!(file.read_whole(1).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_whole(&self, limit: u64) -> Result<Vec<u8>> {
        if self.len > limit {
            return Err(Error::new(&self.path, Detail::Long { len: self.len, limit }));
        }
        self.read_vec(0, self.len)
    }

    /// Reads the first bytes, at most `most`, to recognize the format.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("weights.bin");
    /// # std::fs::write(&path, b"0123456789")?;
    /// let file = ggmill_io::RandomAccess::open(&path)?;
    /// assert_eq!((file.beginning(4)?, file.beginning(4096)?.len()), (b"0123".to_vec(), 10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn beginning(&self, most: usize) -> Result<Vec<u8>> {
        self.read_vec(0, self.len.min(most as u64))
    }

    /// Reads `size` bytes from `offset` on. Checks the range against the length of the file before
    /// allocating.
    fn read_vec(&self, offset: u64, size: u64) -> Result<Vec<u8>> {
        let end = offset.saturating_add(size);
        if end > self.len {
            return Err(Error::new(
                &self.path,
                Detail::Outside { start: offset, end, len: self.len },
            ));
        }
        let too_large = || Error::new(&self.path, Detail::TooLarge { size });
        let len = usize::try_from(size).map_err(|_| too_large())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| too_large())?;
        bytes.resize(len, 0);
        self.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The error for a requested range outside the file, which ends at `len`.
    #[cold]
    pub(crate) fn outside(&self, start: u64, end: u64, len: u64) -> Error {
        Error::new(&self.path, Detail::Outside { start, end, len })
    }

    /// Returns the open local file, reopened if it was closed, or the source of a remote one.
    pub(crate) fn local(&self) -> Result<Result<Arc<File>>, &dyn ReadAt> {
        match &self.content {
            Content::Local { file, metadata } => Ok(self.opened(file, metadata)),
            Content::Remote(source) => Err(&**source),
        }
    }

    fn opened(&self, file: &RwLock<Option<Arc<File>>>, metadata: &Metadata) -> Result<Arc<File>> {
        let open_file = file.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(file) = open_file {
            return Ok(file);
        }
        let file = open(&self.path)?;
        self.check(&file, metadata)?;
        Ok(Arc::new(file))
    }
}

impl ReadAt for RandomAccess {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> ggmill_core::Result<()> {
        Ok(self.read_at(offset, out)?)
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        if let Content::Remote(source) = &self.content {
            source.prefetch(ranges);
        }
    }

    fn verify(&self) -> ggmill_core::Result<()> {
        Ok(self.verify()?)
    }

    fn name(&self) -> Option<RawStr<'_>> {
        Some(shown(&self.path))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // Without this, opening a named pipe blocks until there is a writer. It has no effect on
    // regular files.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    options.open(path).map_err(|source| match std::fs::metadata(path) {
        // On Windows and for sockets, the type of the file says more than the error of `open`.
        Ok(metadata) if !metadata.is_file() => not_regular(path, &metadata),
        _ => Error::io(path, "cannot open", source),
    })
}

#[cfg(unix)]
fn is_one_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// There is no file identity here: length and modification time must suffice.
#[cfg(not(unix))]
fn is_one_file(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// The error for a path that does not lead to a regular file.
pub(crate) fn not_regular(path: &Path, metadata: &Metadata) -> Error {
    Error::new(path, Detail::NotRegular { found: file_type_name(metadata) })
}

fn file_type_name(metadata: &Metadata) -> &'static str {
    if metadata.is_dir() {
        return "a directory";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let file_type = metadata.file_type();
        if file_type.is_fifo() {
            return "a pipe";
        }
        if file_type.is_socket() {
            return "a socket";
        }
        if file_type.is_block_device() || file_type.is_char_device() {
            return "a device";
        }
    }
    "something else"
}

/// Reads some bytes from `offset` on; returns 0 at the end of the file.
fn read_once(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    system::read_once(file, offset, out)
}

/// Fills `out` from `offset` on.
pub(crate) fn read_exact(file: &File, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
    while !out.is_empty() {
        match system::read_once(file, offset, out) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                out = out.get_mut(read..).unwrap_or_default();
                offset = offset.saturating_add(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all bytes at `offset`.
pub(crate) fn write_all(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match system::write_once(file, offset, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset = offset.saturating_add(written as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(unix)]
mod system {
    use std::os::unix::fs::FileExt as _;

    use super::{File, io};

    pub(super) fn read_once(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        file.read_at(out, offset)
    }

    pub(super) fn write_once(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }
}

#[cfg(windows)]
mod system {
    use std::os::windows::fs::FileExt as _;

    use super::{File, io};

    pub(super) fn read_once(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        file.seek_read(out, offset)
    }

    pub(super) fn write_once(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        file.seek_write(bytes, offset)
    }
}

/// Systems without positioned I/O: seek and read under a lock, because the cursor is shared.
#[cfg(not(any(unix, windows)))]
mod system {
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
    use std::sync::{Mutex, PoisonError};

    use super::{File, io};

    static CURSOR: Mutex<()> = Mutex::new(());

    pub(super) fn read_once(mut file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let _guard = CURSOR.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read(out)
    }

    pub(super) fn write_once(mut file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let _guard = CURSOR.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.write(bytes)
    }
}

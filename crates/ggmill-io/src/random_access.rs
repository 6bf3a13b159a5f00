use std::any::Any;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ggmill_core::{RawStr, ReadAt};

use crate::error::{Detail, EditFault, Error, Result, shown};
use crate::journal::pending_journal;
use crate::positioned;

/// A file read by position: no cursor, so several threads may share it. It is a regular file of this
/// machine, or one that is [elsewhere](Self::elsewhere).
///
/// GGUF files are opened with [`open`](crate::open), whose model reads from one of these; files of
/// other formats by this itself.
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

/// Where the bytes are.
#[derive(Debug)]
enum Content {
    File {
        /// `None` for a file that is opened for each read.
        file: RwLock<Option<Arc<File>>>,
        /// The system's metadata when it was opened: which file it is, and when it was last
        /// written to.
        metadata: Box<Metadata>,
    },
    Elsewhere(Arc<dyn ReadAt>),
}

impl RandomAccess {
    /// Opens a file. Fails when it cannot be opened, and at once when it is a directory, a pipe, a
    /// socket or a device.
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
        Ok(Self { content: Content::File { file, metadata: Box::new(metadata) }, path, len })
    }

    /// A file that is not on this machine, under a name for messages: its address.
    ///
    /// ```
    /// let file = ggmill_io::RandomAccess::elsewhere("hf://owner/name/config.json", b"{}".to_vec());
    /// assert_eq!(file.read_whole(1 << 20)?, b"{}");
    /// assert!(file.is_elsewhere());
    /// # Ok::<(), ggmill_io::Error>(())
    /// ```
    pub fn elsewhere(path: impl Into<PathBuf>, source: impl ReadAt + 'static) -> Self {
        let (path, len) = (path.into(), source.len());
        Self { content: Content::Elsewhere(Arc::new(source)), path, len }
    }

    /// Whether the file is not on this machine, so that its path names none.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.content, Content::Elsewhere(_))
    }

    /// Closes the file. Each read opens it again for itself, and fails when the path does not lead
    /// to the same file, unchanged. For one of so many that a process may not have them all
    /// open ([`MAX_OPEN_FILES`](crate::MAX_OPEN_FILES)).
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
        if let Content::File { file, .. } = &self.content {
            *file.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The system's metadata of the file when it was opened; `None` for one that is
    /// [elsewhere](Self::elsewhere).
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("weights.bin");
    /// # std::fs::write(&path, b"0123456789")?;
    /// let file = ggmill_io::RandomAccess::open(&path)?;
    /// assert_eq!(file.metadata().map(|metadata| metadata.len()), Some(10));
    /// assert!(ggmill_io::RandomAccess::elsewhere("config.json", b"{}".to_vec()).metadata().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metadata(&self) -> Option<&Metadata> {
        match &self.content {
            Content::File { metadata, .. } => Some(metadata),
            Content::Elsewhere(_) => None,
        }
    }

    /// Whether it had no bytes when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `out` with the bytes from `offset` on. Fails when the file ends before they do, as it
    /// may when something shortened it meanwhile.
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
                    .map_err(|error| Error::new(&self.path, Detail::Elsewhere(error)));
            }
        };
        let mut filled = 0;
        while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let position = offset.saturating_add(filled as u64);
            match positioned::read_once(&file, position, rest) {
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

    /// Fails when something else has written to the file since it was opened: what was read from it
    /// may be half of each. A change within the same tick of the file system's clock, a few
    /// milliseconds, is not seen.
    ///
    /// Fails too when an edit of the file was interrupted
    /// ([`ErrorKind::Journal`](crate::ErrorKind::Journal)): what it holds is neither the old file
    /// nor the new one.
    pub fn verify(&self) -> Result<()> {
        let file = match self.local() {
            Ok(file) => file?,
            Err(source) => {
                return source
                    .verify()
                    .map_err(|error| Error::new(&self.path, Detail::Elsewhere(error)));
            }
        };
        let Content::File { metadata, .. } = &self.content else { return Ok(()) };
        self.check(&file, metadata)?;
        match pending_journal(&self.path) {
            Some(journal) => {
                Err(Error::new(&self.path, Detail::Edit(EditFault::Pending { journal })))
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

    /// All of it, for a file that is small by its nature: a configuration, a list. Fails when it
    /// has more than `limit` bytes, before any are read.
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

    /// Its first bytes, at most so many: enough to tell what the file is.
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

    /// The bytes from `offset` on, as many as `size`, which is checked against the length of the
    /// file before memory is allocated.
    pub(crate) fn read_vec(&self, offset: u64, size: u64) -> Result<Vec<u8>> {
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

    /// The error for requested bytes outside the file, which ends at `len`.
    #[cold]
    pub(crate) fn outside(&self, start: u64, end: u64, len: u64) -> Error {
        Error::new(&self.path, Detail::Outside { start, end, len })
    }

    /// The file of this machine, opened again if it was closed; or what reads one that is elsewhere.
    pub(crate) fn local(&self) -> Result<Result<Arc<File>>, &dyn ReadAt> {
        match &self.content {
            Content::File { file, metadata } => Ok(self.held(file, metadata)),
            Content::Elsewhere(source) => Err(&**source),
        }
    }

    fn held(&self, file: &RwLock<Option<Arc<File>>>, metadata: &Metadata) -> Result<Arc<File>> {
        let held = file.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(file) = held {
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
        if let Content::Elsewhere(source) = &self.content {
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
    // Without this, opening a named pipe waits for a writer. It means nothing for regular files.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    options.open(path).map_err(|source| match std::fs::metadata(path) {
        // Windows and sockets: what the path leads to says more than the refusal to open it.
        Ok(metadata) if !metadata.is_file() => not_regular(path, &metadata),
        _ => Error::io(path, "cannot open", source),
    })
}

#[cfg(unix)]
fn is_one_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Length and time have to do.
#[cfg(not(unix))]
fn is_one_file(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// The error for a path that leads to something else than a regular file.
pub(crate) fn not_regular(path: &Path, metadata: &Metadata) -> Error {
    Error::new(path, Detail::NotRegular { found: what_is(metadata) })
}

fn what_is(metadata: &Metadata) -> &'static str {
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

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ggmill_core::Sink;

use crate::commit::{Directories, Replaced, Unnamed, commit};
use crate::error::{Detail, Error, Result};
use crate::paths::refuse_inputs;
use crate::random_access::{RandomAccess, not_regular};
use crate::temporary::Temporary;

/// Size of the write buffer. Larger pieces bypass it.
const BUFFER: usize = 1 << 20;

/// Bytes between requests to start writing dirty pages back, so that the final sync of a large file
/// has little left to do.
const WRITE_BACK: u64 = 32 << 20;

/// How an existing output is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "an existing file is refused or replaced")]
pub enum Overwrite {
    /// Fail with [`ErrorKind::Exists`](crate::ErrorKind::Exists), also when it appears while the
    /// output is being written.
    #[default]
    Refuse,
    /// Replace the file with the finished output. A program that has the old file open or mapped
    /// keeps its complete content.
    Replace,
}

/// Writes a file atomically.
///
/// The bytes go into a temporary file in the same directory. [`FileSink::commit`] syncs it and then
/// gives it its name; dropping the sink earlier leaves nothing behind. On Linux file systems with
/// `O_TMPFILE`, a killed process leaves nothing behind either, because the file has no name until
/// then.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("vocabulary.gguf");
/// use ggmill_core::{Builder, MetadataBuf, Writer};
/// use ggmill_io::{FileSink, Overwrite};
///
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// let plan = Builder::new().metadata(metadata).plan()?;
///
/// let mut sink = FileSink::create(&path, Overwrite::Refuse)?;
/// sink.reserve(plan.total_len())?;
/// Writer::start(&plan, sink)?.finish()?.commit()?;
/// assert_eq!(ggmill_io::open(&path)?.metadata().str("general.architecture")?, "llama");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A new file gets default permissions; a replacement gets those of the old file. A symbolic link
/// at the path is replaced, not followed.
#[derive(Debug)]
pub struct FileSink {
    target: PathBuf,
    overwrite: Overwrite,
    temporary: Temporary,
    buffer: Vec<u8>,
    written: u64,
    /// Offset up to which write-back has been requested.
    written_back: u64,
    /// Bytes written at the last sync.
    synced: Option<u64>,
}

impl FileSink {
    /// Starts a file for `path`. Fails if the directory is missing or not writable, if the path
    /// leads to a directory or a device, or if a file exists and `overwrite` refuses to replace it.
    pub fn create(path: impl AsRef<Path>, overwrite: Overwrite) -> Result<Self> {
        let target = path.as_ref().to_owned();
        let existing = std::fs::metadata(&target).ok();
        if let Some(metadata) = existing.as_ref().filter(|metadata| !metadata.is_file()) {
            return Err(not_regular(&target, metadata));
        }
        // `nodir/` has the parent of `nodir`, which exists, but no file can have this name.
        let last = target.as_os_str().as_encoded_bytes().last();
        if last.is_some_and(|&last| std::path::is_separator(last.into())) {
            let missing = io::ErrorKind::NotFound.into();
            return Err(Error::io(&target, "cannot write into this directory", missing));
        }
        // A dangling link occupies the name too.
        if overwrite == Overwrite::Refuse && std::fs::symlink_metadata(&target).is_ok() {
            return Err(Error::new(&target, Detail::Exists));
        }
        let directory = directory_of(&target);
        let metadata = std::fs::metadata(directory)
            .map_err(|source| Error::io(directory, "cannot write into this directory", source))?;
        if !metadata.is_dir() {
            return Err(Error::io(
                directory,
                "cannot write into this directory",
                io::ErrorKind::NotADirectory.into(),
            ));
        }
        if target.file_name().is_none() {
            return Err(Error::io(&target, "cannot create", io::ErrorKind::InvalidInput.into()));
        }
        let mut temporary = Temporary::create_in(directory)
            .map_err(|source| Error::io(directory, "cannot write into this directory", source))?;
        if let Some(metadata) = existing {
            // Before the first byte is written, so that private content is never readable by
            // others.
            let keep = |file: &File| keep_permissions(file, &metadata);
            temporary
                .file()
                .and_then(keep)
                .map_err(|source| Error::io(&target, "cannot set its permissions", source))?;
        }
        Ok(Self {
            target,
            overwrite,
            temporary,
            buffer: Vec::new(),
            written: 0,
            written_back: 0,
            synced: None,
        })
    }

    /// Starts a file of `len` bytes: refuses to overwrite one of `inputs` and reserves the space.
    /// Fails like [`refuse_inputs`](crate::refuse_inputs), [`create`](Self::create) and
    /// [`reserve`](Self::reserve).
    ///
    /// To check an output path before the work begins, call this with a length of 0 and drop the
    /// sink.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let model = directory.path().join("model.gguf");
    /// # std::fs::write(&model, b"GGUF")?;
    /// use ggmill_io::{ErrorKind, FileSink, Overwrite};
    /// let over_its_input = FileSink::start(&model, &[&model], Overwrite::Replace, 0);
    /// assert_eq!(over_its_input.map(drop).map_err(|error| error.kind()), Err(ErrorKind::Misuse));
    /// let output = directory.path().join("smaller.gguf");
    /// FileSink::start(&output, &[&model], Overwrite::Refuse, 1 << 20)?.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(
        path: impl AsRef<Path>,
        inputs: &[impl AsRef<Path>],
        overwrite: Overwrite,
        len: u64,
    ) -> Result<Self> {
        refuse_inputs(path.as_ref(), inputs)?;
        let mut sink = Self::create(path, overwrite)?;
        sink.reserve(len)?;
        Ok(sink)
    }

    /// Returns the path of the finished file.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// Returns the number of bytes appended so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Reserves disk space for a file of `len` bytes, so that a full disk fails now and not after
    /// an hour. Where the file system cannot reserve space, compares `len` with the free space, if
    /// that is known.
    pub fn reserve(&mut self, len: u64) -> Result<()> {
        self.temporary
            .file()
            .and_then(|file| reserve(file, len))
            .map_err(|source| Error::io(&self.target, "cannot reserve space", source))
    }

    /// Syncs everything appended so far to the disk. [`commit_all`] syncs all files before it names
    /// the first.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.buffer = Vec::new();
        if self.synced == Some(self.written) {
            return Ok(());
        }
        let cannot_write = |source| Error::io(&self.target, "cannot write", source);
        let file = self.temporary.file().map_err(cannot_write)?;
        // A failed append has lost bytes. A caller that ignored its error must not get a file.
        if file.metadata().map_err(cannot_write)?.len() != self.written {
            return Err(cannot_write(io::Error::new(
                io::ErrorKind::WriteZero,
                "an earlier write failed",
            )));
        }
        file.sync_all().map_err(cannot_write)?;
        self.synced = Some(self.written);
        Ok(())
    }

    /// Syncs and closes the file until it is used again, for sets of more than
    /// [`MAX_OPEN_FILES`](crate::MAX_OPEN_FILES) files.
    ///
    /// The file then has a temporary name that begins with `.ggmill-`, and a killed process leaves
    /// it behind.
    pub fn close_idle(&mut self) -> Result<()> {
        if self.written > 0 {
            self.sync()?;
        }
        self.temporary
            .close(directory_of(&self.target))
            .map_err(|source| Error::io(&self.target, "cannot close the unfinished file", source))
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let result = self.temporary.file().and_then(|mut file| file.write_all(&self.buffer));
        self.buffer.clear();
        result.map_err(|source| Error::io(&self.target, "cannot write", source))?;
        self.write_back();
        Ok(())
    }

    /// Starts write-back of the data written so far, if there is enough of it. Does not block; the
    /// later sync reports errors.
    fn write_back(&mut self) {
        let end = self.written.saturating_sub(self.buffer.len() as u64);
        let len = end.saturating_sub(self.written_back);
        if len >= WRITE_BACK
            && let Ok(file) = self.temporary.file()
        {
            write_back(file, self.written_back, len);
            self.written_back = end;
        }
    }

    /// Syncs the file, renames it to its path, and syncs the directory.
    ///
    /// Fails with [`ErrorKind::Exists`](crate::ErrorKind::Exists) if it must not replace a file and
    /// one exists now.
    pub fn commit(self) -> Result<()> {
        commit_all(vec![self])
    }
}

impl Unnamed for FileSink {
    fn sync(&mut self) -> Result<()> {
        self.sync()
    }

    fn target(&self) -> &Path {
        &self.target
    }

    fn name(self) -> Result<Replaced> {
        let Self { target, overwrite, temporary, .. } = self;
        temporary
            .persist(&target, directory_of(&target), overwrite == Overwrite::Replace)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => Error::new(&target, Detail::Exists),
                _ => Error::io(&target, "cannot move the finished file to its destination", source),
            })?;
        Ok(if overwrite == Overwrite::Replace { Replaced::Perhaps } else { Replaced::Nothing })
    }
}

struct RealDirectories;

impl Directories for RealDirectories {
    fn sync(&mut self, target: &Path) -> Result<()> {
        let directory = directory_of(target);
        sync_directory(directory)
            .map_err(|source| Error::io(directory, "cannot write the directory", source))
    }

    fn remove(&mut self, target: &Path) {
        let _ = std::fs::remove_file(target);
    }
}

impl Sink for FileSink {
    type Error = Error;

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.synced = None;
        if self.buffer.len().saturating_add(bytes.len()) > BUFFER {
            self.flush()?;
        }
        if bytes.len() >= BUFFER {
            let result = self.temporary.file().and_then(|mut file| file.write_all(bytes));
            result.map_err(|source| Error::io(&self.target, "cannot write", source))?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.written = self.written.saturating_add(bytes.len() as u64);
        self.write_back();
        Ok(())
    }
}

impl RangeSink for FileSink {
    fn append_range(&mut self, file: &RandomAccess, offset: u64, len: u64) -> Result<bool> {
        let end = offset.saturating_add(len);
        if end > file.len() {
            return Err(file.outside(offset, end, file.len()));
        }
        // The caller reads remote files.
        let Ok(source) = file.local() else { return Ok(false) };
        let source = source?;
        self.synced = None;
        self.flush()?;
        let mut position = offset;
        while position < end {
            let cannot_copy = |source| Error::io(&self.target, "cannot write", source);
            let left = (end - position).min(WRITE_BACK);
            let to = self.temporary.file().map_err(cannot_copy)?;
            match system::copy(&source, &mut position, to, left).map_err(cannot_copy)? {
                Some(0) => return Err(file.outside(offset, end, position)),
                Some(copied) => {
                    self.written = self.written.saturating_add(copied);
                    self.write_back();
                }
                None => {
                    self.append_read(file, position, end)?;
                    position = end;
                }
            }
        }
        Ok(true)
    }
}

impl FileSink {
    /// The portable fallback: reads the bytes and appends them.
    fn append_read(&mut self, file: &RandomAccess, start: u64, end: u64) -> Result<()> {
        let mut piece = vec![0; BUFFER];
        let mut position = start;
        while position < end {
            let len = usize::try_from(end - position).unwrap_or(usize::MAX).min(BUFFER);
            let piece = piece.get_mut(..len).unwrap_or_default();
            file.read_at(position, piece)?;
            self.append(piece)?;
            position = position.saturating_add(len as u64);
        }
        Ok(())
    }
}

/// Commits several files that belong together: syncs all of them before it names the first. If one
/// cannot be named, removes those already named, so that no partial set remains.
///
/// Fails like [`FileSink::commit`]. Replaced files cannot be restored.
pub fn commit_all(sinks: Vec<FileSink>) -> Result<()> {
    commit(sinks, &mut RealDirectories)
}

/// Returns the directory of a file: `.` for a bare name, whose `parent` is empty.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn keep_permissions(file: &File, existing: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    // Running as root, restore the original owner and group. For other users this may fail, and
    // then they own the new file.
    let _ = fchown(file, Some(existing.uid()), Some(existing.gid()));
    // Keep the permission bits. A model has no use for setuid and setgid.
    file.set_permissions(std::fs::Permissions::from_mode(existing.permissions().mode() & 0o777))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
fn keep_permissions(_: &File, _: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn reserve(file: &File, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    if len == 0 {
        return Ok(());
    }
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
            Err(Errno::INTR) => {}
            // No space, or the file system does not allow a file of this length.
            Err(error @ (Errno::NOSPC | Errno::FBIG | Errno::DQUOT)) => return Err(error.into()),
            Err(_) => return check_free(file, len),
            Ok(()) => return Ok(()),
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn reserve(file: &File, len: u64) -> io::Result<()> {
    check_free(file, len)
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// Fails if the file system has fewer than `len` free bytes now.
#[cfg(unix)]
fn check_free(file: &File, len: u64) -> io::Result<()> {
    // If the free space is unknown, writing will find out.
    let Ok(system) = rustix::fs::fstatvfs(file) else { return Ok(()) };
    let free = u128::from(system.f_bavail) * u128::from(system.f_frsize);
    if free < u128::from(len) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

/// Starts write-back of a range, which otherwise happens at the sync. `POSIX_FADV_DONTNEED` does
/// this without consuming the errors that the sync has to report. It also drops the pages that are
/// already clean, a few percent.
#[cfg(target_os = "linux")]
fn write_back(file: &File, offset: u64, len: u64) {
    let _ = rustix::fs::fadvise(
        file,
        offset,
        std::num::NonZero::new(len),
        rustix::fs::Advice::DontNeed,
    );
}

#[cfg(not(target_os = "linux"))]
fn write_back(_: &File, _: u64, _: u64) {}

/// Syncs a directory, which makes new names in it durable. Ignores a directory that this system
/// cannot open or sync.
#[cfg(unix)]
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    let Ok(directory) = File::open(directory) else { return Ok(()) };
    match directory.sync_all() {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A sink that can copy a range directly from an open file.
///
/// [`FileSink`] uses `copy_file_range`, so that the kernel shares the blocks or copies them without
/// passing them through this process. Other sinks return `false`, and the caller appends the bytes.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (path, copy) = (directory.path().join("model.gguf"), directory.path().join("copy.gguf"));
/// # std::fs::write(&path, b"0123456789")?;
/// use ggmill_io::{FileSink, Overwrite, RandomAccess, RangeSink as _};
/// let file = RandomAccess::open(&path)?;
/// let mut sink = FileSink::create(&copy, Overwrite::Refuse)?;
/// assert!(sink.append_range(&file, 2, 5)?);
/// sink.commit()?;
/// assert_eq!(std::fs::read(&copy)?, b"23456");
///
/// assert!(!Vec::new().append_range(&file, 2, 5).unwrap());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RangeSink: Sink {
    /// Appends `len` bytes of the file from `offset` on and returns `true`, or does nothing and
    /// returns `false`.
    fn append_range(
        &mut self,
        file: &RandomAccess,
        offset: u64,
        len: u64,
    ) -> Result<bool, Self::Error> {
        let _ = (file, offset, len);
        Ok(false)
    }
}

impl RangeSink for Vec<u8> {}

impl<S: RangeSink + ?Sized> RangeSink for &mut S {
    fn append_range(
        &mut self,
        file: &RandomAccess,
        offset: u64,
        len: u64,
    ) -> Result<bool, S::Error> {
        (**self).append_range(file, offset, len)
    }
}

/// Copying between files in the kernel.
#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io;

    use rustix::fs::copy_file_range;
    use rustix::io::Errno;

    /// Bytes of one call: it cannot be interrupted while it shares blocks.
    const MAX_COPY: u64 = 1 << 30;

    /// Copies up to `len` bytes from `offset` of one file to the current position of the other.
    /// The file system shares blocks if it supports that and both offsets are block-aligned;
    /// otherwise the kernel copies. `None` if it can do neither, also after part of the range.
    pub(super) fn copy(
        from: &File,
        offset: &mut u64,
        to: &File,
        len: u64,
    ) -> io::Result<Option<u64>> {
        loop {
            match copy_file_range(
                from,
                Some(offset),
                to,
                None,
                usize::try_from(len.min(MAX_COPY)).unwrap_or(usize::MAX),
            ) {
                Ok(copied) => return Ok(Some(copied as u64)),
                Err(Errno::INTR) => {}
                // Different file systems, or no support.
                Err(
                    Errno::XDEV
                    | Errno::INVAL
                    | Errno::NOSYS
                    | Errno::OPNOTSUPP
                    | Errno::PERM
                    | Errno::BADF,
                ) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;

    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(super) fn copy(_: &File, _: &mut u64, _: &File, _: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

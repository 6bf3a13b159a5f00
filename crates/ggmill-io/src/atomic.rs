use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ggmill_core::Sink;

use crate::commit::{Complete, Directories, Replaced, commit};
use crate::error::{Detail, Error, Result};
use crate::random_access::{RandomAccess, not_regular};
use crate::ranges::{RangeSink, system};
use crate::same_file::refuse_inputs;
use crate::temporary::Temporary;

/// Bytes collected before they are written. Larger pieces go out as they are.
const BUFFER: usize = 1 << 20;

/// Bytes appended after which the disk is set to work on them, so that at the end of a large file
/// little is left to wait for.
const WRITE_BACK: u64 = 32 << 20;

/// How an existing output is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Overwrite {
    /// Fail with [`ErrorKind::Exists`](crate::ErrorKind::Exists), also when it appears while the
    /// output is being written.
    #[default]
    Refuse,
    /// Put the finished output in its place. A program that has the old file open or mapped keeps
    /// it whole.
    Replace,
}

/// Where a file is written: whole or not at all.
///
/// The bytes go into a temporary file of the same directory. [`FileSink::commit`] makes sure that
/// they are on the disk and only then gives the file its name; a sink that is dropped before leaves
/// nothing after. On Linux, where the file system can do that, a killed process does not either:
/// the file has no name until then.
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
/// A new file has the permissions any new file gets, one that replaces another those of the other.
/// A symbolic link at the path is replaced itself; what it leads to stays as it is.
#[derive(Debug)]
pub struct FileSink {
    target: PathBuf,
    overwrite: Overwrite,
    temporary: Temporary,
    buffer: Vec<u8>,
    written: u64,
    /// Up to where the disk has been set to work.
    written_back: u64,
    /// How much there was when last everything was made sure to be on the disk.
    synced: Option<u64>,
}

impl FileSink {
    /// Starts a file that will be at `path`. Fails at once when it may not be there: the directory
    /// is missing or cannot be written to, the path leads to a directory or a device, or there is a
    /// file and it is not to be replaced.
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
        // A link that leads nowhere takes the name too.
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
            // Before the first byte is written, so that a private file is never a public one.
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

    /// Starts a file of `len` bytes that is made of these inputs: none of them is written over, and
    /// the space is set aside. Fails as [`refuse_inputs`](crate::refuse_inputs),
    /// [`create`](Self::create) and [`reserve`](Self::reserve) do.
    ///
    /// With a length of 0, and dropped, it tells before the work begins what no amount of work would
    /// change.
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

    /// The path the file will have.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// Bytes appended so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Sets space aside for a file of `len` bytes, so that a disk too small says so now and not
    /// after an hour. Where space cannot be set aside, the free space is compared with `len`;
    /// where that is not known either, nothing happens.
    pub fn reserve(&mut self, len: u64) -> Result<()> {
        self.temporary
            .file()
            .and_then(|file| reserve(file, len))
            .map_err(|source| Error::io(&self.target, "cannot reserve space", source))
    }

    /// Makes sure that all that was appended is on the disk. Of several files that belong together
    /// each is synced before the first gets its name.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.buffer = Vec::new();
        if self.synced == Some(self.written) {
            return Ok(());
        }
        let cannot_write = |source| Error::io(&self.target, "cannot write", source);
        let file = self.temporary.file().map_err(cannot_write)?;
        // An append that failed has lost bytes, and a program that overlooked that shall not get a
        // file.
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

    /// Closes the file until it is used again, with everything that was appended on the disk. A set
    /// may have more files than a process may have open
    /// ([`MAX_OPEN_FILES`](crate::MAX_OPEN_FILES)).
    ///
    /// From here on the file has a temporary name, `.ggmill-` and more, under which a killed
    /// process leaves it behind.
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

    /// Sets the disk to work on what has been written, when it is enough to be worth it. Nothing is
    /// waited for, and what goes wrong there the sync reports.
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

    /// Puts the file in its place: everything reaches the disk, then the file gets its name, then
    /// the directory reaches the disk.
    ///
    /// Fails with [`ErrorKind::Exists`](crate::ErrorKind::Exists) when it may not replace a file
    /// and there is one now.
    pub fn commit(self) -> Result<()> {
        commit_all(vec![self])
    }
}

impl Complete for FileSink {
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

/// Those of the file system.
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
        // What is elsewhere is given by reading it.
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
    /// The way that works everywhere: reads the bytes and appends them.
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

/// Gives several files that belong together their names: all of them are on the disk before the
/// first has one. When one cannot have its name, those that already have theirs are removed
/// again, so that no part of a whole remains.
///
/// Fails as [`FileSink::commit`] does. Files that were replaced cannot be brought back.
pub fn commit_all(sinks: Vec<FileSink>) -> Result<()> {
    commit(sinks, &mut RealDirectories)
}

/// The directory a file is in. That of a bare name is `.`, which has no name.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn keep_permissions(file: &File, existing: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    // Root gives the file to whose it was. Nobody else can, or may have lost the group, and then
    // the file is theirs as any file they make.
    let _ = fchown(file, Some(existing.uid()), Some(existing.gid()));
    // Who may read and write is kept; what makes a program run as somebody else is not a property
    // of a model.
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
            // No room, or no file may be that long.
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

/// Where space cannot be set aside: whether the file system has as much now.
#[cfg(unix)]
fn check_free(file: &File, len: u64) -> io::Result<()> {
    // What is not known is found out by writing.
    let Ok(system) = rustix::fs::fstatvfs(file) else { return Ok(()) };
    let free = u128::from(system.f_bavail) * u128::from(system.f_frsize);
    if free < u128::from(len) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

/// Has the system begin to write a range to the disk, which it would else do when it is told to
/// sync. Saying that the range will not be read again soon does that and takes no error away from
/// the sync. Pages that are on the disk before the call is over may leave memory, a few in a
/// hundred; the others stay.
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

/// A new name is safe only when the directory that holds it is. A directory that cannot be opened
/// or synced on this system is none of the caller's concern.
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

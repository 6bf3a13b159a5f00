//! Files and directories that are not visible until they are complete.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::path::{Component, Path, PathBuf};

use tempfile::TempPath;

use crate::error::{Detail, Error, Result};
use crate::file_sink::{FileSink, Overwrite, directory_of, sync_directory};

/// Prefix of the names of temporary files and directories: hidden, and identifies this program.
const PREFIX: &str = ".ggmill-";

/// A temporary file in the directory of its target. Dropping it without [`Temporary::persist`]
/// deletes it.
///
/// On Linux file systems with `O_TMPFILE` it has no name, so that even a killed process leaves
/// nothing behind.
#[derive(Debug)]
pub(crate) struct Temporary {
    /// `None` after [`Temporary::close`], which sets `path`.
    file: Option<File>,
    /// `None` for an unnamed file.
    path: Option<TempPath>,
}

impl Temporary {
    /// Creates a file in `directory` with default permissions.
    pub(crate) fn create_in(directory: &Path) -> io::Result<Self> {
        match unnamed::create_in(directory) {
            Some(file) => Ok(Self { file: Some(file), path: None }),
            None => Self::named_in(directory),
        }
    }

    fn named_in(directory: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        // The umask applies, as for any new file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let (file, path) = builder.tempfile_in(directory)?.into_parts();
        Ok(Self { file: Some(file), path: Some(path) })
    }

    /// Returns the open file. Reopens a closed one, positioned at its end.
    pub(crate) fn file(&mut self) -> io::Result<&File> {
        match (&mut self.file, &self.path) {
            (Some(file), _) => Ok(file),
            (file @ None, Some(path)) => {
                let mut opened = OpenOptions::new().read(true).write(true).open(path)?;
                opened.seek(io::SeekFrom::End(0))?;
                Ok(file.insert(opened))
            }
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Closes the file. An unnamed file first gets a temporary name in `directory`, so that it can
    /// be reopened.
    pub(crate) fn close(&mut self, directory: &Path) -> io::Result<()> {
        if let (Some(file), None) = (&self.file, &self.path) {
            self.path = Some(link_temporary(file, directory)?);
        }
        self.file = None;
        Ok(())
    }

    /// Renames the file to `target`. Without `replace`, fails atomically with
    /// [`io::ErrorKind::AlreadyExists`] if the name exists.
    pub(crate) fn persist(self, target: &Path, directory: &Path, replace: bool) -> io::Result<()> {
        let Self { file, path } = self;
        let path = match (path, &file) {
            (Some(path), _) => path,
            (None, Some(file)) if !replace => return unnamed::link(file, target),
            // A link cannot replace a file, but a rename can. So link a temporary name first.
            (None, Some(file)) => link_temporary(file, directory)?,
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        let persisted = if replace { path.persist(target) } else { path.persist_noclobber(target) };
        persisted.map_err(|error| error.error)
    }
}

/// Links an unnamed file under a fresh temporary name.
fn link_temporary(file: &File, directory: &Path) -> io::Result<TempPath> {
    Ok(tempfile::Builder::new()
        .prefix(PREFIX)
        .make_in(directory, |path| unnamed::link(file, path))?
        .into_temp_path())
}

/// Systems without unnamed files.
#[cfg(not(target_os = "linux"))]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn create_in(_: &Path) -> Option<File> {
        None
    }

    pub(super) fn link(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Unnamed files (`O_TMPFILE`).
#[cfg(target_os = "linux")]
mod unnamed {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::{Path, PathBuf};

    use rustix::fs::{AtFlags, CWD, OFlags, linkat};

    /// Creates an unnamed file in `directory`. `None` if the file system does not support them, or
    /// if the file could not be linked later.
    pub(super) fn create_in(directory: &Path) -> Option<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::TMPFILE.bits().cast_signed())
            .open(directory)
            .ok()?;
        std::fs::symlink_metadata(proc_path(&file)).is_ok().then_some(file)
    }

    /// The path of an open file in `/proc`. Linking from it needs no privileges.
    fn proc_path(file: &File) -> PathBuf {
        Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
    }

    pub(super) fn link(file: &File, target: &Path) -> io::Result<()> {
        Ok(linkat(CWD, proc_path(file), CWD, target, AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// Writes a directory of files atomically.
///
/// The files go into a temporary directory in the same parent, which [`NewDirectory::commit`]
/// renames; dropping it earlier leaves nothing behind. It never replaces an existing directory or
/// file.
///
/// ```
/// # let place = tempfile::tempdir()?;
/// use ggmill_io::NewDirectory;
/// let path = place.path().join("checkpoint");
/// let directory = NewDirectory::create(&path)?;
/// directory.write("config.json", b"{}")?;
/// assert!(!path.exists());
/// directory.commit()?;
/// assert_eq!(std::fs::read(path.join("config.json"))?, b"{}");
/// assert!(NewDirectory::create(&path).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NewDirectory {
    target: PathBuf,
    temporary: tempfile::TempDir,
}

impl NewDirectory {
    /// Starts a directory for `path`. Fails if the path exists, or if its parent is missing or not
    /// writable.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let target = unused_path(path.as_ref())?;
        let parent = directory_of(&target);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let temporary =
            builder.tempdir_in(parent).map_err(|source| cannot_write_into(parent, source))?;
        Ok(Self { target, temporary })
    }

    /// Fails if [`create`](Self::create) would, without creating a directory. Tests whether the
    /// parent is writable with a temporary file.
    pub fn check(path: impl AsRef<Path>) -> Result<()> {
        let target = unused_path(path.as_ref())?;
        let parent = directory_of(&target);
        Temporary::create_in(parent).map(drop).map_err(|source| cannot_write_into(parent, source))
    }

    /// Returns the path of the finished directory.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// Starts a file in it: `NAME`, or `DIRECTORY/NAME` in a subdirectory. Fails for any other
    /// path.
    pub fn file(&self, name: &str) -> Result<FileSink> {
        let relative = Path::new(name);
        let components: Vec<Component<'_>> = relative.components().collect();
        let is_plain = components.iter().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || !matches!(components.len(), 1 | 2) {
            return Err(Error::new(&self.target, Detail::NotPlain { name: name.into() }));
        }
        let path = self.temporary.path().join(relative);
        if let (2, Some(parent)) = (components.len(), path.parent()) {
            std::fs::create_dir_all(parent)
                .map_err(|source| Error::io(&self.target, "cannot create a directory", source))?;
        }
        FileSink::create(&path, Overwrite::Refuse)
    }

    /// Writes a whole file.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        use ggmill_core::Sink as _;
        let mut sink = self.file(name)?;
        sink.append(bytes)?;
        sink.commit()
    }

    /// Renames the directory to its path. Fails if the path exists by now, and leaves that
    /// unchanged.
    pub fn commit(self) -> Result<()> {
        let Self { target, temporary } = self;
        let cannot = |source| Error::io(&target, "cannot be given its name", source);
        sync_directory(temporary.path()).map_err(cannot)?;
        // `rename` would replace an empty directory.
        if std::fs::symlink_metadata(&target).is_ok() {
            return Err(Error::new(&target, Detail::Exists));
        }
        std::fs::rename(temporary.path(), &target).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                Error::new(&target, Detail::Exists)
            }
            _ => cannot(source),
        })?;
        // It was renamed, so there is nothing to delete.
        let _ = temporary.keep();
        sync_directory(directory_of(&target)).map_err(cannot)
    }
}

/// Checks that nothing exists at `path`, and strips a trailing separator so that its parent is
/// found.
fn unused_path(path: &Path) -> Result<PathBuf> {
    let target: PathBuf = path.components().collect();
    if target.file_name().is_none() || std::fs::symlink_metadata(&target).is_ok() {
        return Err(Error::new(path, Detail::Exists));
    }
    Ok(target)
}

fn cannot_write_into(directory: &Path, source: io::Error) -> Error {
    Error::io(directory, "cannot write into this directory", source)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;
    use crate::ErrorKind;

    /// Named and unnamed temporary files give the same result, whether they are closed in between
    /// or not.
    #[test]
    fn named_and_unnamed_files_agree() {
        let kinds = [Temporary::create_in, Temporary::named_in];
        for (create, is_closed) in
            kinds.into_iter().flat_map(|create| [(create, false), (create, true)])
        {
            let directory = tempfile::tempdir().unwrap();
            let target = directory.path().join("target");
            let temporary = |text: &[u8]| {
                let mut temporary = create(directory.path()).unwrap();
                let (begin, end) = text.split_at(2);
                temporary.file().unwrap().write_all(begin).unwrap();
                if is_closed {
                    temporary.close(directory.path()).unwrap();
                }
                temporary.file().unwrap().write_all(end).unwrap();
                if is_closed {
                    temporary.close(directory.path()).unwrap();
                }
                temporary
            };
            drop(temporary(b"dropped"));
            temporary(b"first").persist(&target, directory.path(), false).unwrap();
            let error = temporary(b"second").persist(&target, directory.path(), false).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&target).unwrap(), b"first");
            temporary(b"third").persist(&target, directory.path(), true).unwrap();
            assert_eq!(fs::read(&target).unwrap(), b"third");
            #[cfg(unix)]
            {
                let plain = directory.path().join("plain");
                fs::write(&plain, b"").unwrap();
                assert_eq!(
                    fs::metadata(&target).unwrap().permissions(),
                    fs::metadata(&plain).unwrap().permissions()
                );
                fs::remove_file(plain).unwrap();
            }
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn leaves_nothing_behind_and_replaces_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("made");
        let count = || std::fs::read_dir(place.path()).unwrap().count();
        let directory = NewDirectory::create(&path).unwrap();
        directory.write("a", b"a").unwrap();
        directory.write("below/b", b"b").unwrap();
        drop(directory);
        assert_eq!(count(), 0);
        let directory = NewDirectory::create(path.join("")).unwrap();
        for name in ["../a", "/a", "", "a/b/c", "a/../b", "."] {
            assert!(directory.write(name, b"x").is_err(), "{name:?}");
        }
        directory.write("below/b", b"b").unwrap();
        // Another program creates the path first.
        std::fs::create_dir(&path).unwrap();
        assert_eq!(directory.commit().unwrap_err().kind(), ErrorKind::Exists);
        assert_eq!(count(), 1);
        std::fs::remove_dir(&path).unwrap();
        let directory = NewDirectory::create(&path).unwrap();
        directory.write("below/b", b"b").unwrap();
        directory.commit().unwrap();
        assert_eq!((count(), std::fs::read(path.join("below/b")).unwrap()), (1, b"b".to_vec()));
        assert_eq!(NewDirectory::create(&path).unwrap_err().kind(), ErrorKind::Exists);
        assert_eq!(NewDirectory::check(&path).unwrap_err().kind(), ErrorKind::Exists);
        let missing = place.path().join("no/such");
        assert_eq!(NewDirectory::create(&missing).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(NewDirectory::check(missing).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(count(), 1);
        NewDirectory::check(place.path().join("another")).unwrap();
        assert_eq!(count(), 1);
    }
}

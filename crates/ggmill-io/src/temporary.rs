//! A new file that is not visible until it is complete.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::path::Path;

use tempfile::TempPath;

/// How the names of temporary files begin: hidden, and telling whose they are.
const PREFIX: &str = ".ggmill-";

/// A file being written beside its target. Dropped without [`Temporary::persist`], it is gone.
///
/// On Linux it has no name at all where the file system can do that, so that even a killed process
/// leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Temporary {
    /// `None` for a file that was closed. It has a path then.
    file: Option<File>,
    /// `None` for a file without a name.
    path: Option<TempPath>,
}

impl Temporary {
    /// A new file in `directory` with the permissions any new file gets.
    pub(crate) fn create_in(directory: &Path) -> io::Result<Self> {
        match nameless::create_in(directory) {
            Some(file) => Ok(Self { file: Some(file), path: None }),
            None => Self::named_in(directory),
        }
    }

    fn named_in(directory: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        // Less what the umask takes away, as for any new file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let (file, path) = builder.tempfile_in(directory)?.into_parts();
        Ok(Self { file: Some(file), path: Some(path) })
    }

    /// The file, where it was left: one that was closed is opened again, positioned at its end.
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

    /// Closes the file, which gets a name of its own in `directory` if it has none, to be found by
    /// again.
    pub(crate) fn close(&mut self, directory: &Path) -> io::Result<()> {
        if let (Some(file), None) = (&self.file, &self.path) {
            self.path = Some(named(file, directory)?);
        }
        self.file = None;
        Ok(())
    }

    /// Gives the file its name. Without `replace` it fails with [`io::ErrorKind::AlreadyExists`]
    /// when there is one of that name, without a moment between looking and acting.
    pub(crate) fn persist(self, target: &Path, directory: &Path, replace: bool) -> io::Result<()> {
        let Self { file, path } = self;
        let path = match (path, &file) {
            (Some(path), _) => path,
            (None, Some(file)) if !replace => return nameless::link(file, target),
            // A link cannot replace a file, a rename can: so it takes a name of its own in between.
            (None, Some(file)) => named(file, directory)?,
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        let persisted = if replace { path.persist(target) } else { path.persist_noclobber(target) };
        persisted.map_err(|error| error.error)
    }
}

/// Gives a file without a name one that no other has.
fn named(file: &File, directory: &Path) -> io::Result<TempPath> {
    Ok(tempfile::Builder::new()
        .prefix(PREFIX)
        .make_in(directory, |path| nameless::link(file, path))?
        .into_temp_path())
}

/// Systems without such files.
#[cfg(not(target_os = "linux"))]
mod nameless {
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

/// Files without a name, `O_TMPFILE`.
#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::{Path, PathBuf};

    use rustix::fs::{AtFlags, CWD, OFlags, linkat};

    /// A file without a name in `directory`, or `None` where the file system has no such thing or
    /// it could not be given one later.
    pub(super) fn create_in(directory: &Path) -> Option<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::TMPFILE.bits().cast_signed())
            .open(directory)
            .ok()?;
        std::fs::symlink_metadata(proc_path(&file)).is_ok().then_some(file)
    }

    /// Where the kernel shows an open file; a link to there is the way that needs no privilege.
    fn proc_path(file: &File) -> PathBuf {
        Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
    }

    pub(super) fn link(file: &File, target: &Path) -> io::Result<()> {
        Ok(linkat(CWD, proc_path(file), CWD, target, AtFlags::SYMLINK_FOLLOW)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Write as _};

    use super::Temporary;

    /// Both kinds of temporary file end alike, also on systems where the other one is used, and
    /// whether they were closed meanwhile or not.
    #[test]
    fn named_and_nameless_files_agree() {
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
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
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
}

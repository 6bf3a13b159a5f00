//! A directory that exists whole or not at all.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::atomic::{FileSink, Overwrite, directory_of, sync_directory};
use crate::error::{Detail, Error, Result};
use crate::temporary::Temporary;

/// How the name of the temporary directory begins: hidden, and telling whose it is.
const PREFIX: &str = ".ggmill-";

/// A directory of files that appears when the last of them is written.
///
/// The files are written into a temporary directory beside it, which gets its name at the end; one
/// that is dropped before leaves nothing behind. A directory or file that exists is never replaced.
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
    /// Starts a directory that will be at `path`. Fails at once when there is something, and when
    /// the directory around it is missing or cannot be written to.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let target = free(path.as_ref())?;
        let around = directory_of(&target);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let temporary =
            builder.tempdir_in(around).map_err(|source| cannot_write_into(around, source))?;
        Ok(Self { target, temporary })
    }

    /// Fails where [`create`](Self::create) would, and makes no directory. Whether the one around
    /// it can be written to is tried with a file, without a name where the system has such.
    pub fn check(path: impl AsRef<Path>) -> Result<()> {
        let target = free(path.as_ref())?;
        let around = directory_of(&target);
        Temporary::create_in(around).map(drop).map_err(|source| cannot_write_into(around, source))
    }

    /// The path the directory will have.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// Starts a file in it: `NAME`, or `DIRECTORY/NAME` one directory below. Fails for a name that
    /// leads elsewhere.
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

    /// Gives the directory its name. Fails when something got it meanwhile, and leaves that.
    pub fn commit(self) -> Result<()> {
        let Self { target, temporary } = self;
        let cannot = |source| Error::io(&target, "cannot be given its name", source);
        sync_directory(temporary.path()).map_err(cannot)?;
        // A directory without files would be replaced by the renaming below.
        if std::fs::symlink_metadata(&target).is_ok() {
            return Err(Error::new(&target, Detail::Exists));
        }
        std::fs::rename(temporary.path(), &target).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                Error::new(&target, Detail::Exists)
            }
            _ => cannot(source),
        })?;
        // It has another name now, and stays.
        let _ = temporary.keep();
        sync_directory(directory_of(&target)).map_err(cannot)
    }
}

/// A path where there is nothing yet, without a separator at its end, so that the directory around
/// it is found.
fn free(path: &Path) -> Result<PathBuf> {
    let target: PathBuf = path.components().collect();
    if target.file_name().is_none() || std::fs::symlink_metadata(&target).is_ok() {
        return Err(Error::new(path, Detail::Exists));
    }
    Ok(target)
}

fn cannot_write_into(around: &Path, source: io::Error) -> Error {
    Error::io(around, "cannot write into this directory", source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn nothing_is_left_behind_and_nothing_is_replaced() {
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
        // Another program was faster.
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

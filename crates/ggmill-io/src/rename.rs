//! A new name for a file, never that of an existing file.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Detail, Error, Result};

/// The errors of Unix systems when a file system has no links.
const EPERM: i32 = 1;

/// Gives a file another name on the same file system. Fails with
/// [`ErrorKind::Exists`](crate::ErrorKind::Exists) when there is a file of that name, and
/// leaves both as they are.
///
/// The new name is made as a link, which fails when the name was taken meanwhile, and then the old
/// one is removed: nothing is ever replaced. Where the file system has no links, the name is looked
/// for first.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// let (old, new) = (directory.path().join("old"), directory.path().join("new"));
/// std::fs::write(&old, "model")?;
/// std::fs::write(&new, "another")?;
/// assert_eq!(ggmill_io::rename_no_replace(&old, &new).map_err(|error| error.kind()), Err(ggmill_io::ErrorKind::Exists));
/// std::fs::remove_file(&new)?;
/// ggmill_io::rename_no_replace(&old, &new)?;
/// assert_eq!(std::fs::read(&new)?, b"model");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rename_no_replace(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    match std::fs::hard_link(from, to) {
        Ok(()) => std::fs::remove_file(from)
            .map_err(|error| Error::io(from, "cannot remove the old name", error)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::new(to, Detail::Exists))
        }
        Err(error)
            if error.kind() == io::ErrorKind::Unsupported
                || error.raw_os_error() == Some(EPERM) =>
        {
            if to.symlink_metadata().is_ok() {
                return Err(Error::new(to, Detail::Exists));
            }
            std::fs::rename(from, to).map_err(|error| Error::io(from, "cannot rename", error))
        }
        Err(error) => Err(Error::io(from, "cannot rename", error)),
    }
}

/// Gives files other names, as [`rename_no_replace`] does: all of them, or none. When one cannot be
/// renamed, those before it get their old names back; the error is that of the one that failed.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// let [a, b, new, taken] = ["a", "b", "new", "taken"].map(|name| directory.path().join(name));
/// for path in [&a, &b, &taken] {
///     std::fs::write(path, "model")?;
/// }
/// let names = [(a.clone(), new.clone()), (b.clone(), taken)];
/// assert_eq!(ggmill_io::rename_all(&names).map_err(|error| error.kind()), Err(ggmill_io::ErrorKind::Exists));
/// assert!(a.exists() && b.exists() && !new.exists());
/// ggmill_io::rename_all(&names[..1])?;
/// assert!(!a.exists() && new.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rename_all(names: &[(PathBuf, PathBuf)]) -> Result<()> {
    for (number, (from, to)) in names.iter().enumerate() {
        if let Err(error) = rename_no_replace(from, to) {
            for (from, to) in names.iter().take(number).rev() {
                // The first error says more than one of going back.
                let _ = rename_no_replace(to, from);
            }
            return Err(error);
        }
    }
    Ok(())
}

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Detail, Error, Result};

/// Returns `true` if two paths lead to the same file, also through symbolic links, hard links or
/// different spellings. A missing file equals no other.
///
/// Code that writes an output checks every input with this first: overwriting the source of a model
/// cannot be undone.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let model = directory.path().join("model.gguf");
/// # std::fs::write(&model, b"GGUF")?;
/// assert!(ggmill_io::same_file(&model, directory.path().join(".").join("model.gguf"))?);
/// assert!(!ggmill_io::same_file(&model, directory.path().join("other.gguf"))?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn same_file(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Result<bool> {
    let (a, b) = (a.as_ref(), b.as_ref());
    match (identity(a)?, identity(b)?) {
        (Some(a), Some(b)) => Ok(a == b),
        _ => Ok(false),
    }
}

/// Fails with [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if the output is one of its inputs
/// ([`same_file`]).
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let model = directory.path().join("model.gguf");
/// # std::fs::write(&model, b"GGUF")?;
/// let refused = ggmill_io::refuse_inputs(directory.path().join(".").join("model.gguf"), &[&model]);
/// assert_eq!(refused.map_err(|error| error.kind()), Err(ggmill_io::ErrorKind::Misuse));
/// ggmill_io::refuse_inputs(directory.path().join("other.gguf"), &[&model])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn refuse_inputs(output: impl AsRef<Path>, inputs: &[impl AsRef<Path>]) -> Result<()> {
    let output = output.as_ref();
    for input in inputs {
        if same_file(input, output)? {
            return Err(Error::new(output, Detail::IsInput));
        }
    }
    Ok(())
}

fn identity(path: &Path) -> Result<Option<Identity>> {
    match identify(path) {
        Ok(identity) => Ok(Some(identity)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(source) => Err(Error::io(path, "cannot read its metadata", source)),
    }
}

#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identify(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
type Identity = ::same_file::Handle;

#[cfg(not(unix))]
fn identify(path: &Path) -> io::Result<Identity> {
    ::same_file::Handle::from_path(path)
}

/// The error of Unix systems for a hard link on a file system without them.
const EPERM: i32 = 1;

/// Renames a file within its file system. Fails with
/// [`ErrorKind::Exists`](crate::ErrorKind::Exists), without changing anything, if `to` exists.
///
/// Creates a hard link, which fails atomically if the name exists, and then removes the old name.
/// On file systems without hard links it checks for the name first, which leaves a race.
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

/// Renames all files with [`rename_no_replace`], or none: if one fails, the files renamed before it
/// get their old names back, and its error is returned.
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
                // The first error matters more than one of the rollback.
                let _ = rename_no_replace(to, from);
            }
            return Err(error);
        }
    }
    Ok(())
}

use std::io;
use std::path::Path;

use crate::error::{Detail, Error, Result};

/// Whether two paths lead to one file, be it through symbolic links, hard links or different
/// spellings. A path that leads nowhere is the same as none.
///
/// Code that writes an output asks this about every input first: a model that replaces its own
/// source is a loss that cannot be undone.
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

/// Fails with [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) when an output is one of the files it
/// is made of, under whatever name.
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

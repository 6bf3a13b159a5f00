use std::path::{Component, Path, PathBuf};

use crate::error::{Detail, Error, Result};
use crate::random_access::RandomAccess;

/// A directory of files that belong together, such as a checkpoint.
///
/// Files are asked for by name. A name that comes from inside a file is never a path: one that
/// leads elsewhere is refused before anything is opened.
///
/// ```
/// # let temporary = tempfile::tempdir()?;
/// # let path = temporary.path();
/// # std::fs::write(path.join("config.json"), "{}")?;
/// let directory = ggmill_io::Directory::open(path)?;
/// assert!(directory.has("config.json"));
/// assert_eq!(directory.file("config.json")?.len(), 2);
/// assert!(directory.file("../config.json").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The most files [`files`](Self::files) lists.
    pub const MAX_LISTED: usize = 1 << 16;

    /// A directory. Fails when the path leads to none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(Self { path: path.to_owned() }),
            Ok(_) => Err(Error::io(
                path,
                "expected a directory",
                std::io::ErrorKind::NotADirectory.into(),
            )),
            Err(source) => Err(Error::io(path, "cannot open", source)),
        }
    }

    /// The meaning of a path given by a user: a directory, or a file of one with its name.
    pub fn open_either(path: impl AsRef<Path>) -> Result<(Self, Option<String>)> {
        let path = path.as_ref();
        let file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        let name = path.file_name().and_then(|name| name.to_str()).filter(|_| file);
        match (name, path.parent()) {
            (Some(name), Some(parent)) => {
                let directory = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                Ok((Self::open(directory)?, Some(name.to_owned())))
            }
            _ => Ok((Self::open(path)?, None)),
        }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its own name, where it has one that is text.
    pub fn name(&self) -> Option<String> {
        // `.` has a name too, and only the system knows it.
        let path = std::fs::canonicalize(&self.path).ok()?;
        Some(path.file_name()?.to_str()?.to_owned())
    }

    /// Whether there is a file of this name. What is there and is no file, such as a link to one
    /// that is missing, counts as well, so that opening it says why it cannot be read; a directory
    /// does not.
    pub fn has(&self, name: &str) -> bool {
        self.join(name).is_ok_and(|path| match std::fs::metadata(&path) {
            Ok(metadata) => !metadata.is_dir(),
            Err(_) => std::fs::symlink_metadata(&path).is_ok(),
        })
    }

    /// Opens a file. Fails when the name is not a plain one, and as [`RandomAccess::open`] does.
    pub fn file(&self, name: &str) -> Result<RandomAccess> {
        RandomAccess::open(self.join(name)?)
    }

    /// The directory of this name within it, or `None` where there is none. Fails when the name is
    /// not a plain one.
    pub fn subdirectory(&self, name: &str) -> Result<Option<Self>> {
        let path = self.join(name)?;
        Ok(path.is_dir().then_some(Self { path }))
    }

    /// The names of its files, sorted. Names that are not text are ignored. Fails when the system
    /// cannot list them, or there are more than [`MAX_LISTED`](Self::MAX_LISTED).
    pub fn files(&self) -> Result<Vec<String>> {
        let cannot = |source| Error::io(&self.path, "cannot list", source);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(cannot)? {
            let Ok(name) = entry.map_err(cannot)?.file_name().into_string() else { continue };
            if names.len() >= Self::MAX_LISTED {
                return Err(cannot(std::io::Error::other("too many files")));
            }
            if self.has(&name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn join(&self, name: &str) -> Result<PathBuf> {
        let mut components = Path::new(name).components();
        // What separates directories or drives on any system separates none here.
        let plain = !name.contains(['/', '\\', ':', '\0'])
            && matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
        if plain {
            Ok(self.path.join(name))
        } else {
            Err(Error::new(&self.path, Detail::NotPlain { name: name.into() }))
        }
    }
}

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ggmill_core::ReadAt;

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
    /// `None` for a directory of this machine.
    listing: Option<Listing>,
}

/// Opens a file by its path within a directory that is elsewhere.
type OpenFile = dyn Fn(&str) -> ggmill_core::Result<Box<dyn ReadAt>> + Send + Sync;

/// What is in a directory that is not on this machine.
#[derive(Clone)]
struct Listing {
    /// The paths of all files, of which those below `prefix` are in the directory.
    files: Arc<BTreeSet<String>>,
    open: Arc<OpenFile>,
    /// Empty, or ending in `/`.
    prefix: String,
    name: Option<String>,
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Listing {
    /// The names of the files in the directory itself.
    fn names(&self) -> impl Iterator<Item = &str> {
        let below = self.files.range(self.prefix.clone()..);
        below
            .map_while(|path| path.strip_prefix(&*self.prefix))
            .filter(|name| !name.is_empty() && !name.contains('/'))
    }
}

impl Directory {
    /// The most files [`files`](Self::files) lists.
    pub const MAX_LISTED: usize = 1 << 16;

    /// A directory. Fails when the path leads to none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(Self { path: path.to_owned(), listing: None }),
            Ok(_) => Err(Error::io(
                path,
                "expected a directory",
                std::io::ErrorKind::NotADirectory.into(),
            )),
            Err(source) => Err(Error::io(path, "cannot open", source)),
        }
    }

    /// A directory that is not on this machine: its address, for messages, its own name, the paths of
    /// the files in it and below, and what opens one by its path.
    ///
    /// ```
    /// use ggmill_io::Directory;
    /// let files = ["config.json".to_owned(), "1_Dense/config.json".to_owned()];
    /// let directory =
    ///     Directory::elsewhere("hf://owner/name", Some("name".to_owned()), files, |path| {
    ///         Ok(Box::new(format!("{path}!").into_bytes()))
    ///     });
    /// assert_eq!(directory.files()?, ["config.json"]);
    /// assert_eq!(directory.subdirectories()?, ["1_Dense"]);
    /// let inner = directory.subdirectory("1_Dense")?.ok_or("is there")?;
    /// assert_eq!(inner.file("config.json")?.read_whole(99)?, b"1_Dense/config.json!");
    /// assert!(directory.file("other.json").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn elsewhere(
        path: impl Into<PathBuf>,
        name: Option<String>,
        files: impl IntoIterator<Item = String>,
        open: impl Fn(&str) -> ggmill_core::Result<Box<dyn ReadAt>> + Send + Sync + 'static,
    ) -> Self {
        let files = Arc::new(files.into_iter().collect());
        let listing = Listing { files, open: Arc::new(open), prefix: String::new(), name };
        Self { path: path.into(), listing: Some(listing) }
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
        if let Some(listing) = &self.listing {
            return listing.name.clone();
        }
        // `.` has a name too, and only the system knows it.
        let path = std::fs::canonicalize(&self.path).ok()?;
        Some(path.file_name()?.to_str()?.to_owned())
    }

    /// Whether there is a file of this name. What exists and is not a file, such as a link to one
    /// that is missing, counts as well, so that opening it says why it cannot be read; a directory
    /// does not.
    pub fn has(&self, name: &str) -> bool {
        match (&self.listing, self.join(name)) {
            (None, Ok(path)) => match std::fs::metadata(&path) {
                Ok(metadata) => !metadata.is_dir(),
                Err(_) => std::fs::symlink_metadata(&path).is_ok(),
            },
            (Some(listing), Ok(_)) => listing.files.contains(&format!("{}{name}", listing.prefix)),
            (_, Err(_)) => false,
        }
    }

    /// Opens a file. Fails when the name is not a plain one, and as [`RandomAccess::open`] does.
    pub fn file(&self, name: &str) -> Result<RandomAccess> {
        let path = self.join(name)?;
        let Some(listing) = &self.listing else { return RandomAccess::open(path) };
        if !self.has(name) {
            return Err(Error::io(&path, "cannot open", std::io::ErrorKind::NotFound.into()));
        }
        let opened = (listing.open)(&format!("{}{name}", listing.prefix));
        let source = opened.map_err(|error| Error::new(&path, Detail::Elsewhere(error)))?;
        Ok(RandomAccess::elsewhere(path, source))
    }

    /// The directory of this name within it, or `None` where there is none. Fails when the name is
    /// not a plain one.
    pub fn subdirectory(&self, name: &str) -> Result<Option<Self>> {
        let path = self.join(name)?;
        let Some(listing) = &self.listing else {
            return Ok(path.is_dir().then_some(Self { path, listing: None }));
        };
        let prefix = format!("{}{name}/", listing.prefix);
        let is_there = listing.files.range(prefix.clone()..).next();
        let is_there = is_there.is_some_and(|file| file.starts_with(&prefix));
        let listing = Listing { prefix, name: Some(name.to_owned()), ..listing.clone() };
        Ok(is_there.then_some(Self { path, listing: Some(listing) }))
    }

    /// The names of its files, sorted. Names that are not text are ignored. Fails when the system
    /// cannot list them, or the directory has more entries than [`MAX_LISTED`](Self::MAX_LISTED).
    pub fn files(&self) -> Result<Vec<String>> {
        match &self.listing {
            Some(listing) => Ok(listing.names().map(str::to_owned).collect()),
            None => self.listed(|name| self.has(name)),
        }
    }

    /// The names of the directories in it, sorted, as [`files`](Self::files) lists files.
    pub fn subdirectories(&self) -> Result<Vec<String>> {
        let Some(listing) = &self.listing else {
            return self.listed(|name| self.path.join(name).is_dir());
        };
        let below = listing.files.range(listing.prefix.clone()..);
        let below = below.map_while(|path| path.strip_prefix(&*listing.prefix));
        let names: BTreeSet<&str> =
            below.filter_map(|path| Some(path.split_once('/')?.0)).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// The names of what is in a directory of this machine, sorted.
    fn listed(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let cannot = |source| Error::io(&self.path, "cannot list", source);
        let mut names = Vec::new();
        for (seen, entry) in std::fs::read_dir(&self.path).map_err(cannot)?.enumerate() {
            if seen >= Self::MAX_LISTED {
                return Err(cannot(std::io::Error::other("too many files")));
            }
            let Ok(name) = entry.map_err(cannot)?.file_name().into_string() else { continue };
            if is_wanted(&name) {
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

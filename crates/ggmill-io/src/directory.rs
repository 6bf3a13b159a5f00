use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ggmill_core::ReadAt;

use crate::error::{Detail, Error, Result};
use crate::random_access::RandomAccess;

/// A directory of files that belong together, such as a checkpoint; local or
/// [remote](Self::remote).
///
/// Files are opened by name. A name may come from an untrusted file, so names with path components
/// are refused before anything is opened.
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
    /// `None` for a local directory.
    listing: Option<Listing>,
}

/// Opens a file of a remote directory by its path.
type OpenFile = dyn Fn(&str) -> ggmill_core::Result<Box<dyn ReadAt>> + Send + Sync;

/// The files of a remote directory.
#[derive(Clone)]
struct Listing {
    /// The paths of all files; this directory has those below `prefix`.
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
    /// Returns the names of the files directly in the directory.
    fn names(&self) -> impl Iterator<Item = &str> {
        let below = self.files.range(self.prefix.clone()..);
        below
            .map_while(|path| path.strip_prefix(&*self.prefix))
            .filter(|name| !name.is_empty() && !name.contains('/'))
    }
}

impl Directory {
    /// The maximum number of entries that [`files`](Self::files) lists.
    pub const MAX_LISTED: usize = 1 << 16;

    /// Opens a local directory. Fails if the path does not lead to one.
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

    /// Creates a remote directory from its address (for messages), its name, the paths of all files
    /// in it and below, and a function that opens a file by its path.
    ///
    /// ```
    /// use ggmill_io::Directory;
    /// let files = ["config.json".to_owned(), "1_Dense/config.json".to_owned()];
    /// let directory =
    ///     Directory::remote("hf://owner/name", Some("name".to_owned()), files, |path| {
    ///         Ok(Box::new(format!("{path}!").into_bytes()))
    ///     });
    /// assert_eq!(directory.files()?, ["config.json"]);
    /// assert_eq!(directory.subdirectories()?, ["1_Dense"]);
    /// let inner = directory.subdirectory("1_Dense")?.ok_or("exists")?;
    /// assert_eq!(inner.file("config.json")?.read_whole(99)?, b"1_Dense/config.json!");
    /// assert!(directory.file("other.json").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remote(
        path: impl Into<PathBuf>,
        name: Option<String>,
        files: impl IntoIterator<Item = String>,
        open: impl Fn(&str) -> ggmill_core::Result<Box<dyn ReadAt>> + Send + Sync + 'static,
    ) -> Self {
        let files = Arc::new(files.into_iter().collect());
        let listing = Listing { files, open: Arc::new(open), prefix: String::new(), name };
        Self { path: path.into(), listing: Some(listing) }
    }

    /// Opens the path of a user: a directory, or the directory of a file together with the file's
    /// name.
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

    /// Returns the path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its name, if it has one that is valid UTF-8.
    pub fn name(&self) -> Option<String> {
        if let Some(listing) = &self.listing {
            return listing.name.clone();
        }
        // Resolves `.`, which has no name in the path.
        let path = std::fs::canonicalize(&self.path).ok()?;
        Some(path.file_name()?.to_str()?.to_owned())
    }

    /// Returns `true` if it has a file of this name. Other entries except directories count too,
    /// such as a dangling link, so that opening them reports why they cannot be read.
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

    /// Opens a file. Fails if `name` has path components, and like [`RandomAccess::open`].
    pub fn file(&self, name: &str) -> Result<RandomAccess> {
        let path = self.join(name)?;
        let Some(listing) = &self.listing else { return RandomAccess::open(path) };
        if !self.has(name) {
            return Err(Error::io(&path, "cannot open", std::io::ErrorKind::NotFound.into()));
        }
        let opened = (listing.open)(&format!("{}{name}", listing.prefix));
        let source = opened.map_err(|error| Error::new(&path, Detail::Remote(error)))?;
        Ok(RandomAccess::remote(path, source))
    }

    /// Opens a subdirectory; `None` if it does not exist. Fails if `name` has path components.
    pub fn subdirectory(&self, name: &str) -> Result<Option<Self>> {
        let path = self.join(name)?;
        let Some(listing) = &self.listing else {
            return Ok(path.is_dir().then_some(Self { path, listing: None }));
        };
        let prefix = format!("{}{name}/", listing.prefix);
        let first = listing.files.range(prefix.clone()..).next();
        let exists = first.is_some_and(|file| file.starts_with(&prefix));
        let listing = Listing { prefix, name: Some(name.to_owned()), ..listing.clone() };
        Ok(exists.then_some(Self { path, listing: Some(listing) }))
    }

    /// Returns the names of its files, sorted, without names that are not UTF-8. Fails if the
    /// directory cannot be listed or has more than [`MAX_LISTED`](Self::MAX_LISTED) entries.
    pub fn files(&self) -> Result<Vec<String>> {
        match &self.listing {
            Some(listing) => Ok(listing.names().map(str::to_owned).collect()),
            None => self.listed(|name| self.has(name)),
        }
    }

    /// Returns the names of its subdirectories, like [`files`](Self::files).
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

    /// Returns the names of the wanted entries of a local directory, sorted.
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
        // Separators of any operating system are refused on all of them.
        let is_plain = !name.contains(['/', '\\', ':', '\0'])
            && matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
        if is_plain {
            Ok(self.path.join(name))
        } else {
            Err(Error::new(&self.path, Detail::NotPlain { name: name.into() }))
        }
    }
}

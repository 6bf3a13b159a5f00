//! Checkpoints below a directory that is none.

use ggmill_io::Directory;

use super::CheckpointDirectory;
use super::layout::{CONFIG, has_weights};

/// How far below a directory a checkpoint is looked for: the cache of the Hub has one in
/// `snapshots/REVISION`.
const LEVELS: u32 = 2;
/// How many directories in one are examined. One with more entries than
/// [`Directory::MAX_LISTED`] is not.
const DIRECTORIES: usize = 100;

impl CheckpointDirectory {
    /// The first directory below one without a configuration that has one, and weights: what was meant
    /// by the directory above, such as that of a model in the cache of the Hugging Face Hub. `None` as
    /// well where directories cannot be listed or have very many entries; a hundred directories in each
    /// are examined.
    ///
    /// ```
    /// # let temporary = tempfile::tempdir()?;
    /// # let path = temporary.path();
    /// # std::fs::create_dir(path.join("final"))?;
    /// # std::fs::write(path.join("final/config.json"), "{}")?;
    /// # std::fs::write(path.join("final/model.safetensors"), "")?;
    /// use ggmill_pipeline::formats::CheckpointDirectory;
    /// let directory = ggmill_io::Directory::open(path)?;
    /// let found = CheckpointDirectory::below(&directory).ok_or("one")?;
    /// assert_eq!(found.path(), path.join("final"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn below(directory: &Directory) -> Option<Directory> {
        below(directory, LEVELS)
    }
}

fn below(directory: &Directory, levels: u32) -> Option<Directory> {
    let rest = levels.checked_sub(1)?;
    if directory.has(CONFIG) {
        return None;
    }
    let names = directory.subdirectories().ok()?.into_iter().take(DIRECTORIES);
    let inner = |name: String| directory.subdirectory(&name).ok().flatten();
    let inner: Vec<Directory> = names.filter_map(inner).collect();
    let is_one = |inner: &&Directory| inner.has(CONFIG) && has_weights(inner);
    let found = inner.iter().find(is_one).cloned();
    found.or_else(|| inner.iter().find_map(|inner| below(inner, rest)))
}

//! Shard sets: the paths of their files, and the faults of a set.

use std::path::{Path, PathBuf};

use ggmill_core::{Model, ShardName, Split, shard_file_name};

use crate::error::{ErrorKind, shown};
use crate::open::{open, shard_name};

/// Returns the paths of `count` shards with this prefix: `models/big` gives
/// `models/big-00001-of-00002.gguf` and so on. `None` if the prefix does not end in a UTF-8 name or
/// `count` exceeds `u32`.
///
/// ```
/// use std::path::{Path, PathBuf};
/// let paths = ggmill_io::shard_paths(Path::new("models/big"), 2);
/// assert_eq!(paths, Some(vec![PathBuf::from("models/big-00001-of-00002.gguf"), PathBuf::from("models/big-00002-of-00002.gguf")]));
/// assert_eq!(ggmill_io::shard_paths(Path::new("models/"), 2), None);
/// ```
pub fn shard_paths(prefix: &Path, count: usize) -> Option<Vec<PathBuf>> {
    // `file_name` ignores a trailing separator, but `directory/` is not a prefix of file names.
    let ends_in_name = !prefix
        .as_os_str()
        .as_encoded_bytes()
        .last()
        .is_some_and(|&last| std::path::is_separator(last.into()));
    let name = prefix.file_name().and_then(|name| name.to_str()).filter(|_| ends_in_name)?;
    let count = u32::try_from(count).ok()?;
    Some(
        (1..=count)
            .map(|number| prefix.with_file_name(shard_file_name(name, number, count)))
            .collect(),
    )
}

/// Returns the existing shards of the set of `path` in the same directory, in order; only `path` if
/// its name is not that of a shard. [`open`](crate::open) reports missing shards.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let [first, third] = [1, 3].map(|number| directory.path().join(format!("big-0000{number}-of-00003.gguf")));
/// # for path in [&first, &third] { std::fs::write(path, b"GGUF")?; }
/// assert_eq!(ggmill_io::sibling_shards(&third), [first, third]);
/// assert_eq!(ggmill_io::sibling_shards("tiny.gguf".as_ref()).len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sibling_shards(path: &Path) -> Vec<PathBuf> {
    let Some(name) = shard_name(path) else { return vec![path.to_owned()] };
    let there = |number| {
        Some(path.with_file_name(name.sibling(number)))
            .filter(|sibling| number == name.number() || sibling.is_file())
    };
    (1..=name.count()).filter_map(there).collect()
}

/// Returns a leftover shard of another set with the same prefix and a different count, such as of
/// an earlier split: the first by name. `None` if the directory cannot be listed.
pub fn stale_shard(prefix: &Path, count: usize) -> Option<PathBuf> {
    let name = prefix.file_name()?.to_str()?;
    let directory = prefix
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let is_stale = |file: &String| {
        ShardName::parse(file)
            .is_some_and(|shard| shard.prefix() == name && u64::from(shard.count()) != count as u64)
    };
    let files = std::fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    files.filter(is_stale).min().map(|file| prefix.with_file_name(file))
}

/// Why a file and its shards cannot be opened as one model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenFailure {
    /// The error in one line without control characters. It names the file without its directory,
    /// so that the text does not depend on where the files are.
    pub text: String,
    /// If true, the error is in the content of one file, not in the composition of the set.
    pub is_in_content: bool,
}

impl OpenFailure {
    /// Creates a failure with this text.
    pub fn new(text: String, is_in_content: bool) -> Self {
        Self { text, is_in_content }
    }
}

/// Opens a model with all its shards and returns the failure; `None` if it opens.
///
/// ```
/// # use ggmill_core::{Builder, MetadataBuf};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("tiny-00001-of-00002.gguf");
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("split.no", 0u16);
/// # metadata.set("split.count", 2u16);
/// # std::fs::write(&path, Builder::new().metadata(metadata).plan()?.header())?;
/// let found = ggmill_io::open_failure(&path).ok_or("the second shard is missing")?;
/// assert!(found.text.starts_with("tiny-00002-of-00002.gguf: ") && !found.is_in_content);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_failure(path: &Path) -> Option<OpenFailure> {
    let error = open(path).err()?;
    let text = error.to_string();
    let own = format!("{}: ", shown(error.path()));
    let name = error.path().file_name().unwrap_or_default().to_string_lossy();
    let text =
        text.strip_prefix(&own).map_or_else(|| text.clone(), |rest| format!("{name}: {rest}"));
    Some(OpenFailure::new(text, matches!(error.kind(), ErrorKind::Format(_))))
}

/// Returns the fault of a shard set: missing or contradictory shards. `shards` are its files, each
/// opened alone, in the order of their names. `None` if they are not a set, or if the fault is in the
/// content of one file.
///
/// `open_failure` returns why the first shard cannot be opened with its set; for files with paths
/// it is [`open_failure`].
pub fn set_fault(
    shards: &[&Model],
    open_failure: impl FnOnce() -> Option<OpenFailure>,
) -> Option<String> {
    let first = shards.first()?;
    let splits: Vec<_> = shards
        .iter()
        .map(|shard| Split::of(&shard.metadata()).ok().flatten().filter(Split::is_part))
        .collect();
    // A rule of `ggmill-check` covers a file without the `split.*` keys.
    if splits.iter().all(Option::is_none)
        || first.parts().first().is_none_or(|part| part.header_fault().is_some())
    {
        return None;
    }
    let OpenFailure { text, is_in_content } = open_failure()?;
    let in_order = splits.iter().enumerate().all(|(place, split)| {
        split
            .is_some_and(|split| (split.number, split.count) == (place as u64, shards.len() as u64))
    });
    // An error in the content of one file is reported for that file, not for the set.
    (!in_order || !is_in_content).then_some(text)
}

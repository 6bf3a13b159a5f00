//! The files of a set of shards by what their names begin with.

use std::path::{Path, PathBuf};

use ggmill_core::{ShardName, shard_file_name};

use crate::open::shard_name;

/// The paths of so many shards whose names begin with the last part of `prefix`: `models/big` gives
/// `models/big-00001-of-00002.gguf` and so on. `None` when the prefix ends in no name that is text,
/// or there are more shards than names can number.
///
/// ```
/// use std::path::{Path, PathBuf};
/// let paths = ggmill_io::shard_paths(Path::new("models/big"), 2);
/// assert_eq!(paths, Some(vec![PathBuf::from("models/big-00001-of-00002.gguf"), PathBuf::from("models/big-00002-of-00002.gguf")]));
/// assert_eq!(ggmill_io::shard_paths(Path::new("models/"), 2), None);
/// ```
pub fn shard_paths(prefix: &Path, count: usize) -> Option<Vec<PathBuf>> {
    // `directory/` has a last part too, and it is not the beginning of a name.
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

/// A file with the shards of its set that lie beside it, in the order of their numbers; the file
/// alone where its name is not that of a shard. Which shards are missing [`open`](crate::open) says.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let [first, third] = [1, 3].map(|number| directory.path().join(format!("big-0000{number}-of-00003.gguf")));
/// # for path in [&first, &third] { std::fs::write(path, b"GGUF")?; }
/// assert_eq!(ggmill_io::shards_beside(&third), [first, third]);
/// assert_eq!(ggmill_io::shards_beside("tiny.gguf".as_ref()).len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn shards_beside(path: &Path) -> Vec<PathBuf> {
    let Some(name) = shard_name(path) else { return vec![path.to_owned()] };
    let there = |number| {
        Some(path.with_file_name(name.sibling(number)))
            .filter(|sibling| number == name.number() || sibling.is_file())
    };
    (1..=name.count()).filter_map(there).collect()
}

/// A shard of another set with the same prefix, from when there were more shards or fewer: the
/// first by name, where the directory can be listed.
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

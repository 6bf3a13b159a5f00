//! Errors in a shard set whose files were opened one by one.

use std::path::Path;

use ggmill_core::{Model, Split};

use crate::error::{ErrorKind, shown};
use crate::open::open;

/// Why files are not one model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotWhole {
    /// The error in one line without control characters, with the name of the file it is about but
    /// not its directory, so that it is the same wherever the files lie.
    pub text: String,
    /// Whether it is about the content of one file, not about the set.
    pub is_of_content: bool,
}

impl NotWhole {
    /// A reason with this text.
    pub fn new(text: String, is_of_content: bool) -> Self {
        Self { text, is_of_content }
    }
}

/// The reason why a file and the other shards cannot be opened as one model; `None` if they can.
///
/// ```
/// # use ggmill_core::{Builder, MetadataBuf};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("tiny-00001-of-00002.gguf");
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("split.no", 0u16);
/// # metadata.set("split.count", 2u16);
/// # std::fs::write(&path, Builder::new().metadata(metadata).plan()?.header())?;
/// let found = ggmill_io::not_whole(&path).ok_or("the second shard is missing")?;
/// assert!(found.text.starts_with("tiny-00002-of-00002.gguf: ") && !found.is_of_content);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn not_whole(path: &Path) -> Option<NotWhole> {
    let error = open(path).err()?;
    let text = error.to_string();
    let own = format!("{}: ", shown(error.path()));
    let name = error.path().file_name().unwrap_or_default().to_string_lossy();
    let text =
        text.strip_prefix(&own).map_or_else(|| text.clone(), |rest| format!("{name}: {rest}"));
    Some(NotWhole::new(text, matches!(error.kind(), ErrorKind::Format(_))))
}

/// The fault of the set that these files make up, each opened by itself and in the order of their
/// names: shards that are missing, or contradict each other. `None` where there is no set, and where
/// the fault is within one of the files.
///
/// What keeps the first of them from being opened with its set is asked of `not_whole`, which for
/// files with paths is [`not_whole`].
pub fn set_fault(
    shards: &[&Model],
    not_whole: impl FnOnce() -> Option<NotWhole>,
) -> Option<String> {
    let first = shards.first()?;
    let splits: Vec<_> = shards
        .iter()
        .map(|shard| Split::of(&shard.metadata()).ok().flatten().filter(Split::is_part))
        .collect();
    // A file without the keys of a shard has a rule of its own.
    if splits.iter().all(Option::is_none)
        || first.parts().first().is_none_or(|part| part.header_fault().is_some())
    {
        return None;
    }
    let NotWhole { text, is_of_content } = not_whole()?;
    let in_order = splits.iter().enumerate().all(|(place, split)| {
        split
            .is_some_and(|split| (split.number, split.count) == (place as u64, shards.len() as u64))
    });
    // What is wrong within one of the files is told of that file, and does not hide the whole.
    (!in_order || !is_of_content).then_some(text)
}

//! The models of a repository, in a build with servers or without, and those of a directory.

use std::path::Path;

use ggmill_core::{FileType, ShardName};
use ggmill_inspect::Summary;

use crate::console::Console;
use crate::gather::{Files, gather};
use crate::paths::{file_name, text_of};

/// The models of a repository or a directory.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) models: Vec<ListedModel>,
    /// The number of parameters of one of them, where it is known.
    pub(crate) parameters: Option<u64>,
}

/// A model: a file, or the shards of a set.
#[derive(Debug)]
pub(crate) struct ListedModel {
    /// The path within the repository or directory, of a set that of its first shard.
    pub(crate) name: String,
    /// Shards that exist, and that should exist.
    pub(crate) shards: (u32, u32),
    pub(crate) bytes: u64,
    /// The type: in a repository the one that the name states.
    pub(crate) file_type: Option<&'static str>,
    pub(crate) bits_per_weight: Option<f64>,
}

impl Listing {
    /// The models in a directory of this machine. What cannot be read is said.
    pub(crate) fn of_directory(path: &Path, console: Console) -> Self {
        let mut failures = Vec::new();
        let models = gather(&[path.to_owned()], &mut failures);
        for failure in failures {
            console.warn(failure.message());
        }
        let models = models.iter().filter_map(|files| ListedModel::of_files(path, files));
        Self { models: models.collect(), parameters: None }
    }
}

impl ListedModel {
    /// A model in a directory: what its header says, as far as it can be read.
    fn of_files(directory: &Path, files: &Files) -> Option<Self> {
        let first = files.first()?;
        let within = first.strip_prefix(directory).unwrap_or(first);
        let count = ShardName::parse(&file_name(first)).map_or(1, |shard| shard.count());
        let sizes = files.iter().filter_map(|file| file.metadata().ok());
        let mut listed = Self {
            name: text_of(within),
            shards: (u32::try_from(files.len()).unwrap_or(u32::MAX), count),
            bytes: sizes.map(|metadata| metadata.len()).fold(0, u64::saturating_add),
            file_type: None,
            bits_per_weight: None,
        };
        if let Ok(model) = ggmill_io::open(first) {
            let summary = Summary::of(&model);
            listed.file_type = summary.file_type.and_then(FileType::name);
            listed.bits_per_weight = summary.bits_per_weight;
        }
        Some(listed)
    }
}

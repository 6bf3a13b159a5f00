//! The models in a directory of this machine.

use std::path::Path;

use ggmill_core::{FileType, ShardName};
use ggmill_inspect::Summary;

use crate::console::Console;
use crate::gather::{Files, gather};
use crate::listing::{ListedModel, Listing};
use crate::paths::{file_name, text_of};

/// The models in a directory of this machine. What cannot be read is said.
pub(crate) fn list_directory(path: &Path, console: Console) -> Listing {
    let mut failures = Vec::new();
    let models = gather(&[path.to_owned()], &mut failures);
    for failure in failures {
        console.warn(failure.message());
    }
    let models = models.iter().filter_map(|files| listed(path, files, console));
    Listing { models: models.collect(), parameters: None }
}

/// A model in a directory: what its header says, as far as it can be read.
fn listed(directory: &Path, files: &Files, console: Console) -> Option<ListedModel> {
    let first = files.first()?;
    let within = first.strip_prefix(directory).unwrap_or(first);
    let count = ShardName::parse(&file_name(first)).map_or(1, |shard| shard.count());
    let sizes = files.iter().filter_map(|file| file.metadata().ok());
    let mut listed = ListedModel {
        name: text_of(within),
        shards: (u32::try_from(files.len()).unwrap_or(u32::MAX), count),
        bytes: sizes.map(|metadata| metadata.len()).fold(0, u64::saturating_add),
        file_type: None,
        bits_per_weight: None,
    };
    match ggmill_io::open(first) {
        Ok(model) => {
            let summary = Summary::of(&model);
            listed.file_type = summary.file_type.and_then(FileType::name);
            listed.bits_per_weight = summary.bits_per_weight;
        }
        Err(error) => console.warn(error),
    }
    Some(listed)
}

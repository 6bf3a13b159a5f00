//! `list`: lists the models in a repository of the Hugging Face Hub, or in a directory.

use std::path::{Path, PathBuf};

use ggmill_core::{FileType, ShardName};
use ggmill_inspect::Summary;

use crate::find::refuse_missing;
use crate::paths::is_remote;
use crate::{Error, Hint, Model, Note, OpenOptions, Result, find_models};

/// The models in a repository or a directory.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The models, in the order of their names.
    pub models: Vec<ListedModel>,
    /// The number of parameters of a model in the repository, if the Hub knows it.
    pub parameters: Option<u64>,
    /// The errors of files and directories that cannot be read.
    pub errors: Vec<Error>,
    /// Remarks about the models, such as an interrupted edit.
    pub notes: Vec<Note>,
}

/// A model: a file, or the shards of a set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedModel {
    /// The path within the repository or directory; for a set, that of its first shard.
    pub name: String,
    /// The number of shards that exist; 1 for a file.
    pub shards_found: u32,
    /// The number of shards of the set; 1 for a file.
    pub shards: u32,
    /// The total length of the existing files, in bytes.
    pub bytes: u64,
    /// The name of the type: in a repository from the file name, in a directory from the header.
    pub file_type: Option<&'static str>,
    /// The bits per weight, if they are known.
    pub bits_per_weight: Option<f64>,
}

impl OpenOptions {
    /// Lists the GGUF models in a directory, or with the feature `remote` in a repository of the
    /// Hugging Face Hub or a directory of one: `hf://OWNER/NAME`.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Listing> {
        let path = path.as_ref();
        if is_remote(path) {
            return self.list_remote(path);
        }
        if path.is_dir() {
            return Ok(list_directory(path));
        }
        refuse_missing(path)
            .map_err(|error| error.with_hint(Hint::Repository("OWNER/NAME".to_owned())))?;
        let error = Error::misuse("expected hf://OWNER/NAME or a directory").at(path);
        Err(error.with_hint(Hint::InspectFile))
    }

    #[cfg(feature = "remote")]
    fn list_remote(&self, path: &Path) -> Result<Listing> {
        let (client, location) = self.location(path)?;
        let found = client.list(&location)?;
        let models = found.models().into_iter().map(|model| ListedModel {
            name: model.path,
            shards_found: model.shards,
            shards: model.shard_count,
            bytes: model.bytes,
            file_type: model.file_type.and_then(FileType::name),
            bits_per_weight: model.bits_per_weight,
        });
        Ok(Listing { models: models.collect(), parameters: found.parameters, ..Listing::default() })
    }
}

fn list_directory(path: &Path) -> Listing {
    let (models, errors) = find_models(&[path.to_owned()]);
    let mut listing = Listing { errors, ..Listing::default() };
    for files in models {
        let Some(first) = files.first() else { continue };
        listing.notes.extend(files.iter().filter_map(|file| Note::interrupted(file)));
        let model = Model::open(first).map_err(|error| listing.errors.push(error)).ok();
        listing.models.push(listed(path, first, &files, model.as_ref()));
    }
    listing
}

/// Returns a model in a directory, with the facts of its header if that can be read.
fn listed(directory: &Path, first: &Path, files: &[PathBuf], model: Option<&Model>) -> ListedModel {
    let name = first.file_name().unwrap_or_default().to_string_lossy();
    let sizes = files.iter().filter_map(|file| file.metadata().ok());
    let summary = model.map(|model| Summary::of(model.core()));
    ListedModel {
        name: first.strip_prefix(directory).unwrap_or(first).to_string_lossy().into_owned(),
        shards_found: u32::try_from(files.len()).unwrap_or(u32::MAX),
        shards: ShardName::parse(&name).map_or(1, |shard| shard.count()),
        bytes: sizes.map(|metadata| metadata.len()).fold(0, u64::saturating_add),
        file_type: summary.as_ref().and_then(|found| found.file_type).and_then(FileType::name),
        bits_per_weight: summary.as_ref().and_then(|found| found.bits_per_weight),
    }
}

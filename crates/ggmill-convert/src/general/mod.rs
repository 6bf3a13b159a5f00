//! The `general.*` keys that say whose model this is, under which license, made from which others,
//! and how to sample from it.
//!
//! The sources and their precedence are those of the reference (`Metadata.load` of `gguf-py`), so
//! that a file says the same whichever tool made it: the name given, the override file, the model
//! card (`README.md`), the `_name_or_path` of `config.json`, the name of the directory; and
//! `generation_config.json` for sampling.

mod card;
mod given;
mod id;
mod origin;
pub(crate) mod sampling;
mod yaml;

use std::collections::BTreeMap;

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::SideFiles;
use serde_json::Value;

pub use given::MetadataOverride;

pub(crate) use id::Parameters;

use id::{ModelId, title};
use origin::Origin;
use sampling::Sampling;

/// A property that is text, in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    Name,
    Author,
    Version,
    Organization,
    Finetune,
    Basename,
    Description,
    QuantizedBy,
    SizeLabel,
    License,
    LicenseName,
    LicenseLink,
    Url,
    Doi,
    Uuid,
    RepoUrl,
    SourceUrl,
    SourceDoi,
    SourceUuid,
    SourceRepoUrl,
}

impl Field {
    const ALL: [(Self, &'static str); 20] = [
        (Self::Name, keys::GENERAL_NAME),
        (Self::Author, keys::GENERAL_AUTHOR),
        (Self::Version, keys::GENERAL_VERSION),
        (Self::Organization, keys::GENERAL_ORGANIZATION),
        (Self::Finetune, keys::GENERAL_FINETUNE),
        (Self::Basename, keys::GENERAL_BASENAME),
        (Self::Description, keys::GENERAL_DESCRIPTION),
        (Self::QuantizedBy, "general.quantized_by"),
        (Self::SizeLabel, keys::GENERAL_SIZE_LABEL),
        (Self::License, keys::GENERAL_LICENSE),
        (Self::LicenseName, "general.license.name"),
        (Self::LicenseLink, "general.license.link"),
        (Self::Url, keys::GENERAL_URL),
        (Self::Doi, "general.doi"),
        (Self::Uuid, "general.uuid"),
        (Self::RepoUrl, keys::GENERAL_REPO_URL),
        (Self::SourceUrl, "general.source.url"),
        (Self::SourceDoi, "general.source.doi"),
        (Self::SourceUuid, "general.source.uuid"),
        (Self::SourceRepoUrl, "general.source.repo_url"),
    ];
}

const TAGS: &str = "general.tags";
const LANGUAGES: &str = "general.languages";

/// The properties of a model besides its weights.
///
/// A text that is empty is not written, and keeps later sources from giving one, as in the
/// reference.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct General {
    sampling: Sampling,
    fields: BTreeMap<Field, String>,
    base_models: Option<Vec<Origin>>,
    datasets: Option<Vec<Origin>>,
    tags: Vec<String>,
    languages: Vec<String>,
}

/// What there is to know a model's properties from.
pub(crate) struct Sources<'a> {
    /// `config.json`.
    pub(crate) config: &'a Value,
    /// The name of the directory.
    pub(crate) directory: Option<&'a str>,
    pub(crate) files: &'a dyn SideFiles,
    /// The number of elements of all tensors.
    pub(crate) parameters: Parameters,
    /// The size label counted from the tensors.
    pub(crate) size_label: Option<String>,
    pub(crate) given: Option<&'a MetadataOverride>,
    /// The name, where one was asked for.
    pub(crate) name: Option<&'a str>,
}

impl General {
    /// Gathers what the sources say; the first one that has a value wins. `notes` gets what was
    /// ignored.
    pub(crate) fn of(sources: &Sources<'_>, notes: &mut Vec<String>) -> Self {
        let mut general = Self::default();
        card::read(sources.files, sources.parameters, &mut general, notes);
        let from_config = sources.config.get("_name_or_path").and_then(Value::as_str);
        let from_config = from_config.filter(|path| path.matches('/').count() <= 1);
        for id in from_config.into_iter().chain(sources.directory) {
            general.add_id(ModelId::new(id, sources.parameters));
        }
        general.sampling = Sampling::read(sources.files, notes);
        if let Some(given) = sources.given {
            given.apply(&mut general);
            notes.extend(given.note());
        }
        if let Some(name) = sources.name {
            general.fields.insert(Field::Name, name.to_owned());
        }
        general.add(Field::Name, sources.directory.map(str::to_owned));
        general.add(Field::SizeLabel, sources.size_label.clone());
        general
    }

    /// Sets a field that no earlier source has set.
    fn add(&mut self, field: Field, text: Option<String>) {
        if let Some(text) = text {
            self.fields.entry(field).or_insert(text);
        }
    }

    fn add_id(&mut self, id: ModelId) {
        self.add(Field::Name, Some(title(&id.name)));
        self.add(Field::Organization, id.organization.as_deref().map(title));
        self.add(Field::Basename, id.basename);
        self.add(Field::Finetune, id.finetune);
        self.add(Field::Version, id.version);
        self.add(Field::SizeLabel, id.size_label);
    }

    /// Writes the keys in the reference's order.
    pub(crate) fn write_to(&self, metadata: &mut MetadataBuf) {
        self.sampling.write_to(metadata);
        for (field, key) in Field::ALL {
            if let Some(text) = self.fields.get(&field).filter(|text| !text.is_empty()) {
                metadata.set(key, text.as_str());
            }
        }
        origin::write("general.base_model", self.base_models.as_deref(), metadata);
        origin::write("general.dataset", self.datasets.as_deref(), metadata);
        for (key, texts) in [(TAGS, &self.tags), (LANGUAGES, &self.languages)] {
            if !texts.is_empty() {
                metadata.set(key, texts);
            }
        }
    }
}

#[cfg(test)]
mod tests;

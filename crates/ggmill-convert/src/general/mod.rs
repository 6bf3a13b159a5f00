//! The `general.*` keys: authorship, license, base models, datasets, and recommended sampling.
//!
//! The sources and their precedence are those of the reference (`Metadata.load` of `gguf-py`): the
//! requested name, the override file, the model card (`README.md`), the `_name_or_path` of
//! `config.json`, the name of the directory; and `generation_config.json` for sampling.

mod card;
mod id;
mod overrides;
pub(crate) mod sampling;
mod yaml;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::SideFiles;
pub(crate) use id::Parameters;
use id::{ModelId, title};
pub use overrides::MetadataOverride;
use regex_lite::Regex;
use sampling::Sampling;
use serde_json::Value;

/// A text property, in the order of the file.
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

/// The `general.*` properties of a model.
///
/// An empty text is not written and still takes precedence over later sources, as in the reference.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct General {
    sampling: Sampling,
    fields: BTreeMap<Field, String>,
    base_models: Option<Vec<Origin>>,
    datasets: Option<Vec<Origin>>,
    tags: Vec<String>,
    languages: Vec<String>,
}

/// The sources of a model's properties.
pub(crate) struct Sources<'a> {
    /// `config.json`.
    pub(crate) config: &'a Value,
    /// The name of the directory.
    pub(crate) directory: Option<&'a str>,
    pub(crate) files: &'a dyn SideFiles,
    /// The number of elements of all tensors.
    pub(crate) parameters: Parameters,
    /// The size label computed from the tensors.
    pub(crate) size_label: Option<String>,
    pub(crate) given: Option<&'a MetadataOverride>,
    /// The requested name.
    pub(crate) name: Option<&'a str>,
}

impl General {
    /// Reads the properties; the first source with a value wins. Adds a note for everything that is
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

    /// Sets a field unless an earlier source has set it.
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
        write_origins("general.base_model", self.base_models.as_deref(), metadata);
        write_origins("general.dataset", self.datasets.as_deref(), metadata);
        for (key, texts) in [(TAGS, &self.tags), (LANGUAGES, &self.languages)] {
            if !texts.is_empty() {
                metadata.set(key, texts);
            }
        }
    }
}

/// Properties of a base model or a dataset, in the order of the file.
const PROPERTIES: [&str; 9] =
    ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

const NAME: usize = 0;
const VERSION: usize = 2;
const ORGANIZATION: usize = 3;
const REPO_URL: usize = 8;

/// A base model or a dataset: its properties in the order of [`PROPERTIES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Origin([Option<String>; 9]);

impl Origin {
    /// Parses a reference: a URL, or the name of a Hugging Face repository.
    fn of(reference: &str, parameters: Parameters) -> Self {
        static AT_HUGGING_FACE: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new("^https?://huggingface.co/([^/]+/[^/]+)$").ok());

        let mut origin = Self::default();
        if ["http://", "https://", "ssh://"].iter().any(|scheme| reference.starts_with(scheme)) {
            origin.0[REPO_URL] = Some(reference.to_owned());
            let found = AT_HUGGING_FACE.as_ref().and_then(|pattern| pattern.captures(reference));
            if let Some(id) = found.and_then(|groups| groups.get(1)) {
                origin.add(&ModelId::new(id.as_str(), parameters));
            }
            return origin;
        }
        let id = ModelId::new(reference, parameters);
        origin.add(&id);
        if let Some(organization) = &id.organization {
            origin.0[REPO_URL] = Some(format!("https://huggingface.co/{organization}/{}", id.name));
        }
        origin
    }

    fn add(&mut self, id: &ModelId) {
        self.0[NAME] = Some(title(&id.name));
        self.0[VERSION].clone_from(&id.version);
        self.0[ORGANIZATION] = id.organization.as_deref().map(title);
    }
}

/// Writes the number of origins and the properties of each.
fn write_origins(prefix: &str, origins: Option<&[Origin]>, metadata: &mut MetadataBuf) {
    let Some(origins) = origins else { return };
    metadata.set(format!("{prefix}.count"), u32::try_from(origins.len()).unwrap_or(u32::MAX));
    for (number, origin) in origins.iter().enumerate() {
        for (property, text) in PROPERTIES.iter().zip(&origin.0) {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                metadata.set(format!("{prefix}.{number}.{property}"), text);
            }
        }
    }
}

#[cfg(test)]
mod tests;

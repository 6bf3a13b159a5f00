//! The models and datasets that a model was made from.

use std::sync::LazyLock;

use ggmill_core::MetadataBuf;
use regex_lite::Regex;

use super::id::{ModelId, Parameters, title};

/// The properties of a base model or a dataset, in the order of the file.
pub(super) const PROPERTIES: [&str; 9] =
    ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

const NAME: usize = 0;
const VERSION: usize = 2;
const ORGANIZATION: usize = 3;
const REPO_URL: usize = 8;

/// A base model or a dataset: its properties, as [`PROPERTIES`] has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin(pub(super) [Option<String>; 9]);

impl Origin {
    /// What a reference says: a URL, or the name that a repository has at Hugging Face.
    pub(super) fn of(reference: &str, parameters: Parameters) -> Self {
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

/// Writes their number, and what each has.
pub(super) fn write(prefix: &str, origins: Option<&[Origin]>, metadata: &mut MetadataBuf) {
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

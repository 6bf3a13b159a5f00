//! A JSON file of metadata that takes precedence over the metadata of a checkpoint.

use std::collections::BTreeMap;

use ggmill_core::RawStr;
use ggmill_pipeline::formats::{Unambiguous, json_from_slice};
use ggmill_pipeline::{Error, ErrorKind, Result};
use serde_json::Value;

use super::sampling::Sampling;
use super::{Field, General, LANGUAGES, Origin, PROPERTIES, TAGS};

const BASE_MODELS: &str = "general.base_models";
const DATASETS: &str = "general.datasets";

/// Metadata that override those of a checkpoint: a JSON object whose keys are the keys of the file
/// (`general.author`, `general.license`, `general.sampling.temp`, …), with strings, numbers or
/// arrays of strings as values.
///
/// `general.base_models` and `general.datasets` are arrays of objects with `name`, `author`,
/// `version`, `organization`, `description`, `url`, `doi`, `uuid` and `repo_url`. `null` removes an
/// entry. It is the file that the reference converter takes as `--metadata`.
///
/// ```
/// use ggmill_convert::MetadataOverride;
/// let given = br#"{"general.author": "A. Author", "general.tags": ["text-generation"]}"#;
/// assert!(MetadataOverride::from_json(given).is_ok());
/// assert!(MetadataOverride::from_json(br#"{"general.author": 7}"#).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataOverride {
    fields: BTreeMap<Field, Option<String>>,
    sampling: Sampling,
    base_models: Option<Replacement>,
    datasets: Option<Replacement>,
    tags: Option<Vec<String>>,
    languages: Option<Vec<String>>,
    /// Unknown keys.
    ignored: Vec<String>,
}

/// The replacement of the base models or datasets; `None` if null removes them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Replacement(Option<Vec<Origin>>);

impl MetadataOverride {
    /// Maximum size of an override file in bytes.
    pub const MAX_LEN: u64 = 1 << 20;

    /// Parses an override. Fails if the text is not a JSON object, or if the value of a known key
    /// has another type.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let Unambiguous(document) = json_from_slice(text)
            .map_err(|error| fault(format!("not JSON: {}", RawStr::from(&*error.to_string()))))?;
        let Value::Object(entries) = document else { return Err(fault("expected an object")) };
        let mut given = Self::default();
        for (key, value) in &entries {
            given.take(key, value).map_err(|expected| {
                let found = RawStr::from(&*value.to_string()).to_string();
                fault(format!("{}: found {found}, expected {expected}", RawStr::from(&**key)))
            })?;
        }
        Ok(given)
    }

    /// Takes an entry; the error says what was expected as its value.
    fn take(&mut self, key: &str, value: &Value) -> std::result::Result<(), &'static str> {
        if let Some(taken) = self.sampling.take(key, value) {
            return taken;
        }
        if let Some(&(field, _)) = Field::ALL.iter().find(|(_, known)| *known == key) {
            self.fields.insert(field, text(value)?);
            return Ok(());
        }
        match key {
            TAGS => self.tags = Some(texts(value)?),
            LANGUAGES => self.languages = Some(texts(value)?),
            BASE_MODELS => self.base_models = Some(origins(value)?),
            DATASETS => self.datasets = Some(origins(value)?),
            _ => self.ignored.push(key.to_owned()),
        }
        Ok(())
    }

    /// Overrides the properties of the checkpoint.
    pub(super) fn apply(&self, general: &mut General) {
        general.sampling.replace_with(&self.sampling);
        for (&field, text) in &self.fields {
            match text {
                Some(text) => general.fields.insert(field, text.clone()),
                None => general.fields.remove(&field),
            };
        }
        let origins = [
            (&mut general.base_models, &self.base_models),
            (&mut general.datasets, &self.datasets),
        ];
        for (mine, given) in origins {
            if let Some(Replacement(given)) = given {
                mine.clone_from(given);
            }
        }
        let texts = [(&mut general.tags, &self.tags), (&mut general.languages, &self.languages)];
        for (mine, given) in texts {
            if let Some(given) = given {
                mine.clone_from(given);
            }
        }
    }

    /// Returns a note that lists unknown keys.
    pub(super) fn note(&self) -> Option<String> {
        let keys: Vec<String> =
            self.ignored.iter().map(|key| RawStr::from(&**key).to_string()).collect();
        (!keys.is_empty()).then(|| {
            format!(
                "the metadata override has unknown keys, which were ignored: {}",
                keys.join(", ")
            )
        })
    }
}

fn fault(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Edit, message)
}

fn text(value: &Value) -> std::result::Result<Option<String>, &'static str> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err("text"),
    }
}

fn texts(value: &Value) -> std::result::Result<Vec<String>, &'static str> {
    const EXPECTED: &str = "an array of strings";
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or(EXPECTED)).collect()
        }
        _ => Err(EXPECTED),
    }
}

fn origins(value: &Value) -> std::result::Result<Replacement, &'static str> {
    const EXPECTED: &str = "an array of objects";
    let items = match value {
        Value::Null => return Ok(Replacement(None)),
        Value::Array(items) => items,
        _ => return Err(EXPECTED),
    };
    let mut origins = Vec::new();
    for item in items {
        let Value::Object(entries) = item else { return Err(EXPECTED) };
        let mut origin = Origin::default();
        for (place, property) in origin.0.iter_mut().zip(PROPERTIES) {
            if let Some(value) = entries.get(property) {
                *place = text(value).map_err(|_| "objects whose values are strings")?;
            }
        }
        origins.push(origin);
    }
    Ok(Replacement(Some(origins)))
}

//! Defaults of the configuration classes in the `transformers` library.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;

/// The defaults by model type. The file is generated (`conformance`).
#[derive(Debug, Deserialize)]
struct Defaults {
    /// The members of all classes.
    base: Json,
    /// The defaults of each class.
    #[serde(rename = "defaults")]
    of_types: BTreeMap<String, Json>,
    /// Members that a class computes from others.
    computed: BTreeMap<String, Json>,
    /// Defaults of sections whose class has the model type of another class, by `TYPE.NAME`.
    parts: BTreeMap<String, Json>,
}

static CLASSES: LazyLock<Defaults> = LazyLock::new(|| {
    let text = include_str!("../../data/transformers.json");
    serde_json::from_str(text).expect("a test reads the same text")
});

/// Returns the defaults of the configuration class with this model type, in the release of the library
/// that the reference converter requires; `None` for an unknown type.
pub(crate) fn class_defaults(model_type: &str) -> Option<&'static Json> {
    CLASSES.of_types.get(model_type)
}

/// Returns all model types of the library.
pub(crate) fn model_types() -> impl Iterator<Item = &'static str> {
    CLASSES.of_types.keys().map(String::as_str)
}

/// Returns `true` if the configuration class of a model type has this member.
pub(crate) fn class_has(model_type: &str, member: &str) -> bool {
    let Some(defaults) = class_defaults(model_type) else { return false };
    let computed = CLASSES.computed.get(model_type);
    let members = [Some(defaults), computed, Some(&CLASSES.base)];
    members.into_iter().flatten().any(|members| members.get(member).is_some())
}

/// Returns `true` if all configuration classes have this member.
pub(crate) fn every_class_has(member: &str) -> bool {
    CLASSES.base.get(member).is_some()
}

/// Returns the number of configuration classes with this member.
pub(crate) fn classes_with(member: &str) -> usize {
    CLASSES.of_types.values().filter(|defaults| defaults.get(member).is_some()).count()
}

/// Returns the defaults of a section in configurations of this model type, if the model type of the
/// section does not determine its class.
pub(crate) fn part_defaults(model_type: &str, name: &str) -> Option<&'static Json> {
    CLASSES.parts.get(&format!("{model_type}.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_objects() {
        let Defaults { of_types: defaults, parts, .. } = &*CLASSES;
        assert!(defaults.values().chain(parts.values()).all(Json::is_object));
        let size = class_defaults("gemma3_text").and_then(|defaults| defaults["head_dim"].as_u64());
        assert_eq!(size, Some(256));
        // The tower has the model type of the whole model.
        let width =
            part_defaults("qwen2_vl", "vision_config").and_then(|part| part["embed_dim"].as_u64());
        assert_eq!(width, Some(1280));
    }
}

//! Defaults of the configuration classes in the `transformers` library.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;

/// The defaults of the classes by model type. The files are generated (`conformance`).
#[derive(Debug, Deserialize)]
struct Defaults {
    /// The members of all classes.
    base: Json,
    /// The defaults of each class.
    #[serde(rename = "defaults")]
    of_types: BTreeMap<String, Json>,
    /// Members that a class computes from others.
    computed: BTreeMap<String, Json>,
    /// Other names of members, with the name that the class has.
    aliases: BTreeMap<String, BTreeMap<String, String>>,
    /// Defaults of sections whose class has the model type of another class, by `TYPE.NAME`.
    parts: BTreeMap<String, Json>,
}

/// A release of the library whose defaults are known: that of the reference converter, and the
/// newest of those that name, omit and nest the members of `config.json` in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    V4,
    V5,
}

static V4: LazyLock<Defaults> =
    LazyLock::new(|| read(include_str!("../../data/transformers.json")));
static V5: LazyLock<Defaults> =
    LazyLock::new(|| read(include_str!("../../data/transformers-5.json")));

fn read(text: &str) -> Defaults {
    serde_json::from_str(text).expect("a test reads the same text")
}

impl Release {
    /// Returns the release whose defaults count for a configuration: by the version of the library
    /// that wrote it.
    pub(crate) fn of(config: &Json) -> Self {
        let version = config.get("transformers_version").and_then(Json::as_str);
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        if major.is_some_and(|major| major >= 5) { Self::V5 } else { Self::V4 }
    }

    fn defaults(self) -> &'static Defaults {
        match self {
            Self::V4 => &V4,
            Self::V5 => &V5,
        }
    }

    /// Returns the defaults of the configuration class with this model type; `None` for a type
    /// that the release does not know.
    pub(crate) fn class_defaults(self, model_type: &str) -> Option<&'static Json> {
        self.defaults().of_types.get(model_type)
    }

    /// Returns the defaults of the part with this name in a configuration of this model type, where
    /// the model type of the part does not tell its class; `None` where it does.
    pub(crate) fn part_defaults(self, model_type: &str, name: &str) -> Option<&'static Json> {
        self.defaults().parts.get(&format!("{model_type}.{name}"))
    }

    /// Returns the other names that a configuration class of this model type accepts for a member.
    pub(crate) fn aliases(
        self,
        model_type: &str,
        member: &str,
    ) -> impl Iterator<Item = &'static str> {
        let aliases = self.defaults().aliases.get(model_type);
        let of_class = aliases.and_then(|aliases| aliases.get(member)).map_or(member, |name| name);
        let pairs = aliases.into_iter().flatten();
        let others = pairs.filter(move |(_, name)| *name == of_class).map(|(alias, _)| &**alias);
        let others: Vec<&'static str> = others.filter(|alias| *alias != member).collect();
        let own = aliases.and_then(|aliases| aliases.get_key_value(member));
        own.map(|(_, name)| &**name).into_iter().chain(others)
    }
}

/// Returns the defaults of the configuration class with this model type, in the release of the library
/// that the reference converter requires; `None` for an unknown type.
pub(crate) fn class_defaults(model_type: &str) -> Option<&'static Json> {
    Release::V4.class_defaults(model_type)
}

/// Returns all model types of the library.
pub(crate) fn model_types() -> impl Iterator<Item = &'static str> {
    V4.of_types.keys().map(String::as_str)
}

/// Returns `true` if the configuration class of a model type has this member.
pub(crate) fn class_has(model_type: &str, member: &str) -> bool {
    let Some(defaults) = class_defaults(model_type) else { return false };
    let computed = V4.computed.get(model_type);
    let members = [Some(defaults), computed, Some(&V4.base)];
    members.into_iter().flatten().any(|members| members.get(member).is_some())
}

/// Returns `true` if all configuration classes have this member.
pub(crate) fn every_class_has(member: &str) -> bool {
    V4.base.get(member).is_some()
}

/// Returns the number of configuration classes with this member.
pub(crate) fn classes_with(member: &str) -> usize {
    V4.of_types.values().filter(|defaults| defaults.get(member).is_some()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_objects() {
        for release in [Release::V4, Release::V5] {
            let Defaults { of_types: defaults, parts, .. } = release.defaults();
            assert!(defaults.values().chain(parts.values()).all(Json::is_object));
        }
        let size = class_defaults("gemma3_text").and_then(|defaults| defaults["head_dim"].as_u64());
        assert_eq!(size, Some(256));
        // The tower has the model type of the whole model.
        let width = Release::V4
            .part_defaults("qwen2_vl", "vision_config")
            .and_then(|part| part["embed_dim"].as_u64());
        assert_eq!(width, Some(1280));
    }

    #[test]
    fn the_release_follows_from_the_version_of_a_configuration() {
        let of =
            |version: &str| Release::of(&serde_json::json!({ "transformers_version": version }));
        assert_eq!(["5.24.0", "5.0.0.dev0", "10.1"].map(of), [Release::V5; 3]);
        assert_eq!(["4.57.6", "", "x"].map(of), [Release::V4; 3]);
        assert_eq!(Release::of(&Json::Null), Release::V4);
    }

    #[test]
    fn aliases_lead_both_ways() {
        let of = |member| Release::V5.aliases("qwen3_moe", member).collect::<Vec<_>>();
        assert_eq!(of("num_experts"), ["num_local_experts"]);
        assert_eq!(of("num_local_experts"), ["num_experts"]);
        assert_eq!(of("hidden_size"), [""; 0]);
    }
}

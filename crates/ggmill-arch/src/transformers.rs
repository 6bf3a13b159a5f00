//! What the configuration classes of the `transformers` library add to a `config.json`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;

/// The defaults of the classes by model type. The file is generated (`xtask/peers`).
#[derive(Debug, Deserialize)]
struct Defaults {
    defaults: BTreeMap<String, Json>,
    /// Of parts whose class has the model type of another, by `TYPE.NAME`.
    parts: BTreeMap<String, Json>,
}

static DEFAULTS: LazyLock<Defaults> = LazyLock::new(|| {
    let text = include_str!("../data/transformers.json");
    serde_json::from_str(text).expect("a test reads the same text")
});

/// The defaults of the configuration class with this model type, in the release of the library
/// that the reference converter asks for; `None` for a type it does not know.
pub(crate) fn class_defaults(model_type: &str) -> Option<&'static Json> {
    DEFAULTS.defaults.get(model_type)
}

/// The defaults of the part with this name in a configuration of this model type, where the model
/// type of the part does not tell its class; `None` where it does.
pub(crate) fn part_defaults(model_type: &str, name: &str) -> Option<&'static Json> {
    DEFAULTS.parts.get(&format!("{model_type}.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_objects() {
        let Defaults { defaults, parts } = &*DEFAULTS;
        assert!(defaults.values().chain(parts.values()).all(Json::is_object));
        let size = class_defaults("gemma3_text").and_then(|defaults| defaults["head_dim"].as_u64());
        assert_eq!(size, Some(256));
        // The tower has the model type of the whole.
        let width =
            part_defaults("qwen2_vl", "vision_config").and_then(|part| part["embed_dim"].as_u64());
        assert_eq!(width, Some(1280));
    }
}

//! Settings of checkpoints that change what a model computes, and that programs do not read from a
//! GGUF file: they compute with one value, whatever `config.json` says.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::parameters::config::Config;

/// A setting of a checkpoint that the file does not express, with the value that programs assume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssumedSetting {
    /// The path in `config.json`.
    pub name: String,
    /// The value of the checkpoint, as JSON.
    pub value: String,
    /// The value that programs assume, as JSON or in words.
    pub assumed: String,
    /// The number of tokens up to which the value makes no difference; `None` if it always makes one.
    pub exact_tokens: Option<u64>,
}

/// A setting that makes no difference up to this number of tokens does not prevent a conversion: the
/// windows of published models have 2,047 tokens or more.
const SHORT_TEXT: u64 = 1024;

/// The longest value in a message.
const MAX_SHOWN: usize = 80;

impl AssumedSetting {
    pub(crate) fn new(name: &str, value: &dyn fmt::Display, assumed: &str) -> Self {
        let mut value = value.to_string();
        if let Some((end, _)) = value.char_indices().nth(MAX_SHOWN) {
            value.truncate(end);
            value.push('…');
        }
        Self { name: name.to_owned(), value, assumed: assumed.to_owned(), exact_tokens: None }
    }

    /// Returns `true` if texts of ordinary length are computed as by the library, so that a checkpoint
    /// with this setting can be converted with a note.
    pub fn is_exact_for_short_texts(&self) -> bool {
        self.exact_tokens.is_some_and(|tokens| tokens >= SHORT_TEXT)
    }
}

impl fmt::Display for AssumedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, assumed, exact_tokens } = self;
        write!(f, "{name} is {value}, and programs assume {assumed}")?;
        match exact_tokens {
            Some(tokens) => {
                write!(f, ", which makes a difference for texts of more than {tokens} tokens")
            }
            None => Ok(()),
        }
    }
}

/// For each model type, settings with the values for which a converted file computes what the library
/// does. The file is generated (`conformance`).
#[derive(Debug, Deserialize)]
struct Settings {
    settings: BTreeMap<String, BTreeMap<String, Vec<Json>>>,
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/settings.json"))
        .expect("a test reads the same text")
});

/// Returns the settings with a value for which a converted file computes something else.
pub(crate) fn unread_settings(config: &Config<'_>) -> impl Iterator<Item = AssumedSetting> {
    let of_type = config.model_type().and_then(|model_type| SETTINGS.settings.get(model_type));
    of_type.into_iter().flatten().filter_map(|(name, accepted)| {
        let value = config.setting(name)?;
        if accepted.iter().any(|accepted| is_same(accepted, value)) {
            return None;
        }
        let assumed: Vec<String> = accepted.iter().map(shown).collect();
        Some(AssumedSetting::new(name, value, &assumed.join(" or ")))
    })
}

/// The accepted value that stands for every number.
fn is_any_number(accepted: &Json) -> bool {
    accepted.get("type").is_some_and(|name| name == "number")
}

fn shown(accepted: &Json) -> String {
    if is_any_number(accepted) { "a number".to_owned() } else { accepted.to_string() }
}

/// Returns `true` if a value is accepted. Numbers may be written as integers or floats.
fn is_same(accepted: &Json, value: &Json) -> bool {
    let (a, b) = (accepted, value);
    a == b
        || is_any_number(a) && b.is_number()
        || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a.total_cmp(&b).is_eq())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(config: &Json) -> Vec<String> {
        unread_settings(&Config::new(config)).map(|setting| setting.to_string()).collect()
    }

    #[test]
    fn settings_with_other_values_are_found() {
        assert!(SETTINGS.settings.len() > 50);
        let of = |act: Json| found(&json!({ "model_type": "qwen2", "hidden_act": act }));
        assert_eq!(of(json!("silu")), [""; 0]);
        assert_eq!(
            of(json!("relu")),
            [r#"hidden_act is "relu", and programs assume "silu" or "swish""#]
        );
        assert_eq!(
            of(json!(null)),
            [r#"hidden_act is null, and programs assume "silu" or "swish""#]
        );
        // Without a value, that of the class counts, or nothing where the class is unknown.
        assert_eq!(found(&json!({ "model_type": "qwen2" })), [""; 0]);
        assert_eq!(found(&json!({ "model_type": "unknown", "hidden_act": "relu" })), [""; 0]);
    }

    #[test]
    fn long_values_are_cut() {
        let setting = AssumedSetting::new("name", &json!("ä".repeat(200)), "none");
        assert_eq!(setting.value.chars().count(), MAX_SHOWN + 1);
    }
}

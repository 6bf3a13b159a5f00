//! The types that standard keys have, whichever program writes them.

use ggmill_arch::{Architecture, StandardKey};
use ggmill_core::{ValueType, keys};

use super::key_type::KeyType;

/// The type a key has in files that keep to the specification, for a model of this architecture: as
/// its description has it, else as every architecture has it. A list stands for a key that may be
/// either when `list` says so.
pub(crate) fn standard_type(key: &str, architecture: Option<&str>, list: bool) -> Option<KeyType> {
    let described = architecture
        .and_then(Architecture::builtin)
        .and_then(|architecture| architecture.key_types(key));
    // Where one number stands for all layers, a list may stand for each.
    let standard = || {
        StandardKey::of(key)
            .filter(|standard| !list || !standard.is_of_architecture())
            .map(|standard| standard.types())
    };
    let (single, element) = described.or_else(standard).or_else(|| by_rule(key))?;
    let (single, element) = (single.map(KeyType::single), element.map(KeyType::array));
    if list { element.or(single) } else { single.or(element) }
}

/// Keys that are not listed, by the types of related keys.
fn by_rule(key: &str) -> Option<(Option<ValueType>, Option<ValueType>)> {
    let value_type = match key {
        _ if key.starts_with("general.sampling.") => ValueType::F32,
        _ if key.starts_with("general.") || key.starts_with("tokenizer.chat_template") => {
            ValueType::STRING
        }
        _ if key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id") => ValueType::U32,
        _ => return None,
    };
    Some((Some(value_type), None))
}

/// The key of a special token by a short name (`pad`), or by the name within the key (`padding`),
/// which other tools use.
pub(crate) fn special_token_key(role: &str) -> Option<&'static str> {
    let role = if role == "separator" { "sep" } else { role };
    let is_in = |key: &str| {
        let name = key.strip_prefix("tokenizer.ggml.");
        name.and_then(|name| name.strip_suffix("_token_id")) == Some(role)
    };
    let mut tokens = keys::SPECIAL_TOKENS.iter();
    tokens.find(|(name, key)| *name == role || is_in(key)).map(|(_, key)| *key)
}

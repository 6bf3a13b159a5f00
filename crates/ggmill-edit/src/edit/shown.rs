//! Foreign text, as it is shown in messages.

use ggmill_core::RawStr;

/// The longest text of a value shown in a message, in characters.
const MAX_SHOWN: usize = 40;

/// Text from somewhere else, escaped and not too long.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let more = if short.len() < text.len() { " …" } else { "" };
    format!("{:?}{more}", RawStr::from(short.as_str()))
}

/// JSON as it is written, not too long.
pub(super) fn shown_json(json: &serde_json::Value) -> String {
    if let serde_json::Value::String(text) = json {
        return quoted(text);
    }
    let whole = json.to_string();
    let short: String = whole.chars().take(MAX_SHOWN).collect();
    let more = if short.len() < whole.len() { " …" } else { "" };
    format!("{}{more}", RawStr::from(short.as_str()))
}

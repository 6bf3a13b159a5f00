//! Normalizers and decoders of `tokenizer.json`.

use std::borrow::Cow;
use std::sync::LazyLock;

use fancy_regex::Regex;
use serde_json::Value;

use super::{byte_token, flag, flatten, from_byte_level, malformed, type_of, unsupported};
use crate::error::Error;
use crate::unicode;

/// The maximum factor by which the replacements of a component can lengthen a text.
const MAX_GROWTH: usize = 1 << 12;

/// A step of a normalizer.
#[derive(Debug)]
enum Step {
    /// NFKC and NFKD, which change one character of the check text: this step knows only that one.
    Compatibility,
    Lowercase,
    StripAccents,
    Bert {
        clean: bool,
        space_ideographs: bool,
        strip_accents: bool,
        lowercase: bool,
    },
    Strip {
        left: bool,
        right: bool,
    },
    Prepend(String),
    Replace {
        from: String,
        to: String,
    },
}

/// A normalizer. Of NFC and NFD it supports what they do to the check text of the reference
/// converter: nothing.
#[derive(Debug)]
pub(super) struct Normalizer(Vec<Step>);

impl Normalizer {
    /// Reads a normalizer. Fails if it is malformed or not supported.
    pub(super) fn new(component: &Value) -> Result<Self, Error> {
        let parts = flatten_bounded(component, "normalizer", "normalizers")?;
        let mut steps = Vec::with_capacity(parts.len());
        for part in parts {
            steps.push(match type_of(part) {
                "NFC" | "NFD" => continue,
                "NFKC" | "NFKD" => Step::Compatibility,
                "Lowercase" => Step::Lowercase,
                "StripAccents" => Step::StripAccents,
                "BertNormalizer" => {
                    let lowercase = flag(part, "lowercase", true);
                    Step::Bert {
                        clean: flag(part, "clean_text", true),
                        space_ideographs: flag(part, "handle_chinese_chars", true),
                        strip_accents: flag(part, "strip_accents", lowercase),
                        lowercase,
                    }
                }
                "Strip" => Step::Strip {
                    left: flag(part, "strip_left", true),
                    right: flag(part, "strip_right", true),
                },
                "Prepend" => {
                    let prefix = part.get("prepend").and_then(Value::as_str);
                    Step::Prepend(prefix.unwrap_or_default().to_owned())
                }
                "Replace" => {
                    let (from, to) = replacement(part)?;
                    Step::Replace { from: from.to_owned(), to: to.to_owned() }
                }
                other => return Err(unsupported(format!("normalizer {other:?} is not supported"))),
            });
        }
        Ok(Self(steps))
    }

    /// Returns the normalized text.
    pub(super) fn apply<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        self.0.iter().fold(text, |text, step| match step {
            Step::Compatibility => text.replace('\u{ff5e}', "~").into(),
            Step::Lowercase => text.to_lowercase().into(),
            Step::StripAccents => remove(NONSPACING_MARKS.as_ref(), &text).into(),
            Step::Bert { clean, space_ideographs, strip_accents, lowercase } => {
                let mut text = text.into_owned();
                if *clean {
                    text = remove(CONTROLS.as_ref(), &text);
                    text = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
                }
                if *space_ideographs {
                    text = with_spaced_ideographs(&text);
                }
                if *strip_accents {
                    text = remove(NONSPACING_MARKS.as_ref(), &text);
                }
                if *lowercase { text.to_lowercase() } else { text }.into()
            }
            Step::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { &*text };
                if *right { text.trim_end() } else { text }.to_owned().into()
            }
            Step::Prepend(_) if text.is_empty() => text,
            Step::Prepend(prefix) => format!("{prefix}{text}").into(),
            Step::Replace { from, to } => text.replace(&**from, to).into(),
        })
    }
}

static NONSPACING_MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\p{Mn}").ok());

/// The characters that `BertNormalizer` removes: control characters and U+FFFD, except for three that
/// it replaces with spaces.
static CONTROLS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[[\p{C}\u{fffd}]&&[^\t\n\r]]").ok());

/// Removes the matches of an expression.
fn remove(expression: Option<&Regex>, text: &str) -> String {
    expression.map_or_else(|| text.to_owned(), |regex| regex.replace_all(text, "").into_owned())
}

/// Adds spaces before and after each ideograph.
fn with_spaced_ideographs(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut spaced, c| {
        if unicode::is_ideograph(c.into()) {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
        spaced
    })
}

/// Returns the pattern and the content of a `Replace`.
fn replacement(part: &Value) -> Result<(&str, &str), Error> {
    let content = part.get("content").and_then(Value::as_str).unwrap_or_default();
    let pattern = part.get("pattern");
    match pattern.and_then(|pattern| pattern.get("String")).and_then(Value::as_str) {
        Some("") => Err(malformed("a replacement of the empty string")),
        Some(from) => Ok((from, content)),
        None => Err(unsupported("a replacement by a regular expression is not supported")),
    }
}

/// Returns the parts of a component. Fails if its replacements can make a text too long.
fn flatten_bounded<'a>(
    component: &'a Value,
    name: &str,
    member: &str,
) -> Result<Vec<&'a Value>, Error> {
    let parts = flatten(component, name, member)?;
    let growth = parts.iter().fold(1usize, |growth, part| {
        let content = part.get("content").or_else(|| part.get("prepend")).and_then(Value::as_str);
        growth.saturating_mul(content.map_or(1, |content| content.len().max(1)))
    });
    if growth > MAX_GROWTH {
        return Err(unsupported(format!("{member} would make the text too long")));
    }
    Ok(parts)
}

/// Returns the text of one token after a decoder.
///
/// Fails if the decoder is malformed or not supported.
pub fn decode_token(decoder: &Value, token: &str) -> Result<String, Error> {
    let mut text = token.to_owned();
    for part in flatten_bounded(decoder, "decoder", "decoders")? {
        let character = |name: &str| part.get(name).and_then(Value::as_str)?.chars().next();
        let number = |name: &str| {
            let number = part.get(name).and_then(Value::as_u64).unwrap_or_default();
            usize::try_from(number).unwrap_or(usize::MAX)
        };
        text = match type_of(part) {
            "ByteLevel" => {
                let bytes = from_byte_level(&text).unwrap_or_else(|| text.into_bytes());
                String::from_utf8_lossy(&bytes).into_owned()
            }
            "ByteFallback" => match byte_token(&text) {
                Some(byte) => String::from_utf8_lossy(&[byte]).into_owned(),
                None => text,
            },
            "Replace" => {
                let (from, to) = replacement(part)?;
                text.replace(from, to)
            }
            "Strip" => {
                let content = character("content").unwrap_or(' ');
                let start = text.chars().take(number("start")).take_while(|&c| c == content);
                let start: usize = start.map(char::len_utf8).sum();
                let rest = text.get(start..).unwrap_or_default();
                let stop = rest.chars().rev().take(number("stop")).take_while(|&c| c == content);
                let stop: usize = stop.map(char::len_utf8).sum();
                rest.get(..rest.len().saturating_sub(stop)).unwrap_or_default().to_owned()
            }
            "WordPiece" if flag(part, "cleanup", true) => {
                clean_up_spaces(&text).replace(" do not", " don't")
            }
            "Fuse" | "WordPiece" => text,
            "Metaspace" => {
                let mark = character("replacement").unwrap_or('\u{2581}');
                let keeps = part.get("prepend_scheme").and_then(Value::as_str) == Some("never");
                let first = text.strip_prefix(mark).filter(|_| !keeps).unwrap_or(&text);
                first.replace(mark, " ")
            }
            other => return Err(unsupported(format!("decoder {other:?} is not supported"))),
        };
    }
    Ok(text)
}

/// Removes spaces before punctuation and contractions, as `clean_up_tokenization_spaces` of the
/// `transformers` library does. llama.cpp's rules differ from these.
pub fn clean_up_spaces(text: &str) -> String {
    let rules = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    rules.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normalized(normalizer: &Value, text: &str) -> Result<String, String> {
        let normalizer = Normalizer::new(normalizer).map_err(|error| error.to_string())?;
        Ok(normalizer.apply(text.into()).into_owned())
    }

    #[test]
    fn texts_are_normalized_and_decoded() {
        let string = |from: &str, to: &str| json!({ "type": "Replace", "pattern": { "String": from }, "content": to });
        let llama = json!({ "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" }, string(" ", "▁"),
        ] });
        assert_eq!(normalized(&llama, "a b").unwrap(), "▁a▁b");
        assert_eq!(normalized(&Value::Null, "a b").unwrap(), "a b");
        let bert = json!({ "type": "BertNormalizer" });
        assert_eq!(normalized(&bert, "E\u{301}\t\u{1}中").unwrap(), "e  中 ");
        let back = json!({ "type": "Sequence", "decoders": [
            string("▁", " "), { "type": "ByteFallback" }, { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 9 },
        ] });
        let decoded = |decoder: &Value, token| decode_token(decoder, token).unwrap();
        assert_eq!(decoded(&back, "▁▁a "), " a");
        assert_eq!(decoded(&back, "<0x41>"), "A");
        assert_eq!(decoded(&json!({ "type": "ByteLevel" }), "Ġa"), " a");
        assert_eq!(decoded(&json!({ "type": "ByteLevel" }), "a b"), "a b");
        assert_eq!(decoded(&json!({ "type": "Metaspace" }), "▁a▁b"), "a b");
    }

    #[test]
    fn replacements_cannot_take_all_memory() {
        let doubled = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
        let nested = json!({ "type": "Sequence", "normalizers": vec![doubled; 20] });
        assert!(normalized(&nested, "a").unwrap_err().contains("too long"));
        let empty = json!({ "type": "Replace", "pattern": { "String": "" }, "content": "a" });
        assert!(normalized(&empty, "a").is_err());
    }
}

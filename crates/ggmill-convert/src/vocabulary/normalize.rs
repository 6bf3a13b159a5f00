//! Normalizers and decoders of `tokenizer.json`, as far as the check of a pre-tokenizer and the
//! texts of added tokens need them.

use fancy_regex::Regex;
use serde_json::Value;

use super::bytes::of_alphabet;

/// The most parts of a component, and how many times longer replacements can make a text.
const MOST: usize = 64;
const GROWTH: usize = 1 << 12;

/// Why a text cannot be normalized or decoded.
pub(crate) type Fault = String;

/// What a normalizer makes of the check text or a part of it.
///
/// Of the Unicode normalization forms it knows what they do to that text: NFC and NFD nothing, the
/// other two exchange one character.
pub(crate) fn normalized(normalizer: &Value, text: &str) -> Result<String, Fault> {
    let mut steps = Vec::new();
    flatten(normalizer, "normalizers", &mut steps)?;
    let mut text = text.to_owned();
    for step in steps {
        let field = |name: &str| step.get(name).and_then(Value::as_str);
        text = match field("type").unwrap_or_default() {
            "NFC" | "NFD" => text,
            "NFKC" | "NFKD" => text.replace('\u{ff5e}', "~"),
            "Lowercase" => text.to_lowercase(),
            "StripAccents" => without(r"\p{Mn}", &text)?,
            "BertNormalizer" => of_bert(step, &text)?,
            "Strip" => {
                let flag = |name| step.get(name).and_then(Value::as_bool).unwrap_or(true);
                let text = if flag("strip_left") { text.trim_start() } else { &*text };
                if flag("strip_right") { text.trim_end() } else { text }.to_owned()
            }
            "Prepend" if text.is_empty() => text,
            "Prepend" => format!("{}{text}", field("prepend").unwrap_or_default()),
            "Replace" => replaced(step, &text)?,
            other => return Err(format!("normalizer {other:?} is not supported")),
        };
    }
    Ok(text)
}

/// The text that a decoder makes of one token.
pub(crate) fn decoded(decoder: &Value, token: &str) -> Result<String, Fault> {
    let mut steps = Vec::new();
    flatten(decoder, "decoders", &mut steps)?;
    let mut text = token.to_owned();
    for step in steps {
        let field = |name: &str| step.get(name).and_then(Value::as_str);
        let flag = |name: &str, or| step.get(name).and_then(Value::as_bool).unwrap_or(or);
        let number = |name: &str| {
            let number = step.get(name).and_then(Value::as_u64).unwrap_or_default();
            usize::try_from(number).unwrap_or(usize::MAX)
        };
        text = match field("type").unwrap_or_default() {
            "ByteLevel" => {
                let bytes = of_alphabet(&text).unwrap_or_else(|| text.into_bytes());
                String::from_utf8_lossy(&bytes).into_owned()
            }
            "ByteFallback" => match byte_token(&text) {
                Some(byte) => String::from_utf8_lossy(&[byte]).into_owned(),
                None => text,
            },
            "Replace" => replaced(step, &text)?,
            "Strip" => {
                let content = field("content").and_then(|it| it.chars().next()).unwrap_or(' ');
                let start = text.chars().take(number("start")).take_while(|&c| c == content);
                let start: usize = start.map(char::len_utf8).sum();
                let rest = text.get(start..).unwrap_or_default();
                let stop = rest.chars().rev().take(number("stop")).take_while(|&c| c == content);
                let stop: usize = stop.map(char::len_utf8).sum();
                rest.get(..rest.len().saturating_sub(stop)).unwrap_or_default().to_owned()
            }
            "WordPiece" if flag("cleanup", true) => without_word_spaces(&text),
            "Fuse" | "WordPiece" => text,
            "Metaspace" => {
                let mark = field("replacement").and_then(|it| it.chars().next());
                let mark = mark.unwrap_or('\u{2581}');
                let keeps = field("prepend_scheme") == Some("never");
                let first = text.strip_prefix(mark).filter(|_| !keeps).unwrap_or(&text);
                first.replace(mark, " ")
            }
            other => return Err(format!("decoder {other:?} is not supported")),
        };
    }
    Ok(text)
}

/// The steps of nested sequences, in order. Fails where there are too many, or where their
/// replacements make a text too long.
fn flatten<'a>(step: &'a Value, parts: &str, steps: &mut Vec<&'a Value>) -> Result<(), Fault> {
    if step.get("type").and_then(Value::as_str) == Some("Sequence") {
        let nested = step.get(parts).and_then(Value::as_array);
        // JSON is read to a depth of 128.
        return nested.into_iter().flatten().try_for_each(|part| flatten(part, parts, steps));
    }
    if !step.is_null() {
        steps.push(step);
    }
    let growth = steps.iter().fold(1usize, |growth, step| {
        let content = step.get("content").or_else(|| step.get("prepend")).and_then(Value::as_str);
        growth.saturating_mul(content.map_or(1, |content| content.len().max(1)))
    });
    if steps.len() > MOST || growth > GROWTH {
        return Err(format!("{parts} would make the text too long"));
    }
    Ok(())
}

/// What a `BertNormalizer` makes of a text, in the order of the library.
fn of_bert(step: &Value, text: &str) -> Result<String, Fault> {
    let flag = |name: &str| step.get(name).and_then(Value::as_bool);
    let mut text = text.to_owned();
    if flag("clean_text").unwrap_or(true) {
        text = without(r"[[\p{C}\u{fffd}]&&[^\t\n\r]]", &text)?;
        text = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    }
    if flag("handle_chinese_chars").unwrap_or(true) {
        text = text.chars().fold(String::new(), |mut spaced, c| {
            match u32::from(c) {
                0x3400..=0x4dbf
                | 0x4e00..=0x9fff
                | 0xf900..=0xfaff
                | 0x20000..=0x2a6df
                | 0x2a700..=0x2b73f
                | 0x2b740..=0x2b81f
                | 0x2b920..=0x2ceaf
                | 0x2f800..=0x2fa1f => spaced.extend([' ', c, ' ']),
                _ => spaced.push(c),
            }
            spaced
        });
    }
    let lowercase = flag("lowercase").unwrap_or(true);
    if flag("strip_accents").unwrap_or(lowercase) {
        text = without(r"\p{Mn}", &text)?;
    }
    Ok(if lowercase { text.to_lowercase() } else { text })
}

/// A text without what matches a regular expression.
fn without(expression: &str, text: &str) -> Result<String, Fault> {
    let regex = Regex::new(expression).map_err(|error| error.to_string())?;
    Ok(regex.replace_all(text, "").into_owned())
}

/// What the library's clean-up of spaces makes of a text.
pub(super) fn without_spaces(text: &str) -> String {
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

/// What a decoder of WordPiece models makes of the spaces in a token.
fn without_word_spaces(text: &str) -> String {
    without_spaces(text).replace(" do not", " don't")
}

/// A replacement of one string by another.
fn replaced(step: &Value, text: &str) -> Result<String, Fault> {
    let content = step.get("content").and_then(Value::as_str).unwrap_or_default();
    let pattern = step.get("pattern");
    match pattern.and_then(|pattern| pattern.get("String")).and_then(Value::as_str) {
        Some("") => Err("a replacement of the empty string".into()),
        Some(string) => Ok(text.replace(string, content)),
        None => Err("a replacement by a regular expression is not supported".into()),
    }
}

/// The byte of `<0x0A>`.
pub(crate) fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let two = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| two)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_normalized_and_decoded() {
        let string = |from: &str, to: &str| json!({ "type": "Replace", "pattern": { "String": from }, "content": to });
        let llama = json!({ "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" }, string(" ", "▁"),
        ] });
        assert_eq!(normalized(&llama, "a b").unwrap(), "▁a▁b");
        assert_eq!(normalized(&Value::Null, "a b").unwrap(), "a b");
        let back = json!({ "type": "Sequence", "decoders": [
            string("▁", " "), { "type": "ByteFallback" }, { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 9 },
        ] });
        assert_eq!(decoded(&back, "▁▁a ").unwrap(), " a");
        assert_eq!(decoded(&back, "<0x41>").unwrap(), "A");
        assert_eq!(decoded(&json!({ "type": "ByteLevel" }), "Ġa").unwrap(), " a");
        assert_eq!(decoded(&json!({ "type": "ByteLevel" }), "a b").unwrap(), "a b");
        assert_eq!(decoded(&json!({ "type": "Metaspace" }), "▁a▁b").unwrap(), "a b");
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

//! Decoders of `tokenizer.json`: the text of tokens.

use serde_json::Value;

use super::expression::{Budget, Expression, MAX_EXPRESSIONS, expanded_length};
use super::normalize::{content, flatten_bounded, string_pattern};
use super::split::pattern;
use super::{byte_token, character, flag, from_byte_level, type_of, unsupported};
use crate::error::Error;

/// Returns the text of one token after a decoder.
///
/// Fails if the decoder is malformed or not supported.
pub fn decode_token(decoder: &Value, token: &str) -> Result<String, Error> {
    decode_tokens(decoder, vec![token.to_owned()])
}

/// Returns the text of tokens after a decoder. Without a decoder, tokens are separated by spaces.
///
/// Fails if the decoder is malformed or not supported.
pub fn decode_tokens(decoder: &Value, mut tokens: Vec<String>) -> Result<String, Error> {
    let parts = flatten_bounded(decoder, "decoder", "decoders")?;
    if parts.is_empty() {
        return Ok(tokens.join(" "));
    }
    for part in parts {
        tokens = decoded(part, tokens)?;
    }
    Ok(tokens.concat())
}

/// Applies one decoder.
fn decoded(part: &Value, tokens: Vec<String>) -> Result<Vec<String>, Error> {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    let each = |tokens: Vec<String>, change: &dyn Fn(usize, String) -> String| {
        tokens.into_iter().enumerate().map(|(place, token)| change(place, token)).collect()
    };
    Ok(match type_of(part) {
        "ByteLevel" => {
            let bytes = |token: String| from_byte_level(&token).unwrap_or(token.into_bytes());
            let bytes: Vec<u8> = tokens.into_iter().flat_map(bytes).collect();
            vec![String::from_utf8_lossy(&bytes).into_owned()]
        }
        "ByteFallback" => without_byte_tokens(tokens),
        "Fuse" => vec![tokens.concat()],
        "Replace" => {
            let to = content(part);
            match string_pattern(part)? {
                Some(from) => each(tokens, &|_, token| token.replace(from, to)),
                None => replace_matches(&pattern(part)?, to, tokens)?,
            }
        }
        "Strip" => each(tokens, &|_, token| stripped(part, &token)),
        "WordPiece" => {
            let prefix = text("prefix").unwrap_or("##");
            let cleans = flag(part, "cleanup", true);
            each(tokens, &|place, token| {
                let token = match token.strip_prefix(prefix) {
                    _ if place == 0 => token,
                    Some(rest) => rest.to_owned(),
                    None => format!(" {token}"),
                };
                if cleans { clean_up(&token) } else { token }
            })
        }
        "BPEDecoder" => {
            let suffix = text("suffix").unwrap_or("</w>");
            let last = tokens.len().saturating_sub(1);
            each(tokens, &|place, token| {
                token.replace(suffix, if place == last { "" } else { " " })
            })
        }
        "Metaspace" => {
            let mark = character(part, "replacement").unwrap_or('\u{2581}');
            let keeps = text("prepend_scheme") == Some("never");
            each(tokens, &|place, token| {
                token.replace(mark, if place == 0 && !keeps { "" } else { " " })
            })
        }
        "CTC" => {
            let pad = text("pad_token").unwrap_or("<pad>");
            let delimiter = text("word_delimiter_token").unwrap_or("|");
            let mut tokens = tokens;
            tokens.dedup();
            let clean = |token: String| {
                let token = token.replace(pad, "");
                if flag(part, "cleanup", true) {
                    clean_up(&token).replace(delimiter, " ")
                } else {
                    token
                }
            };
            tokens.into_iter().map(clean).filter(|token| !token.is_empty()).collect()
        }
        other => return Err(unsupported(format!("decoder {other:?} is not supported"))),
    })
}

/// Replaces runs of byte tokens by their text, or by one U+FFFD for each if they are not UTF-8.
fn without_byte_tokens(tokens: Vec<String>) -> Vec<String> {
    let mut found = Vec::with_capacity(tokens.len());
    let mut bytes = Vec::new();
    let flush = |bytes: &mut Vec<u8>, found: &mut Vec<String>| {
        let count = bytes.len();
        match String::from_utf8(std::mem::take(bytes)) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => found.push(text),
            Err(_) => found.extend(std::iter::repeat_n("\u{fffd}".to_owned(), count)),
        }
    };
    for token in tokens {
        if let Some(byte) = byte_token(&token) {
            bytes.push(byte);
        } else {
            flush(&mut bytes, &mut found);
            found.push(token);
        }
    }
    flush(&mut bytes, &mut found);
    found
}

/// Replaces the matches of a regular expression in each token.
fn replace_matches(expression: &str, to: &str, tokens: Vec<String>) -> Result<Vec<String>, Error> {
    if expanded_length(expression) > MAX_EXPRESSIONS {
        return Err(unsupported("the regular expression of decoder is too long"));
    }
    let expression = Expression::new(expression)?;
    let replace = |token: String| {
        let mut replaced = String::with_capacity(token.len());
        for (from, end, is_match) in expression.ranges(&token, false, &mut Budget::new(&token))? {
            replaced.push_str(if is_match { to } else { token.get(from..end).unwrap_or_default() });
        }
        Ok(replaced)
    };
    tokens.into_iter().map(replace).collect()
}

/// Removes a character from the start and the end of a token, as often as a `Strip` says.
fn stripped(part: &Value, token: &str) -> String {
    let number = |name: &str| {
        let number = part.get(name).and_then(Value::as_u64).unwrap_or_default();
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    let content = character(part, "content").unwrap_or(' ');
    let start = token.chars().take(number("start")).take_while(|&c| c == content);
    let start: usize = start.map(char::len_utf8).sum();
    let rest = token.get(start..).unwrap_or_default();
    let stop = rest.chars().rev().take(number("stop")).take_while(|&c| c == content);
    let stop: usize = stop.map(char::len_utf8).sum();
    rest.get(..rest.len().saturating_sub(stop)).unwrap_or_default().to_owned()
}

/// Removes spaces as the decoders `WordPiece` and `CTC` do.
fn clean_up(text: &str) -> String {
    clean_up_spaces(text).replace(" do not", " don't")
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

    #[test]
    fn tokens_are_decoded() {
        let back = json!({ "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
            { "type": "ByteFallback" }, { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 9 },
        ] });
        let decoded = |decoder: &Value, tokens: &[&str]| {
            decode_tokens(decoder, tokens.iter().map(|token| (*token).to_owned()).collect())
                .unwrap()
        };
        assert_eq!(decoded(&back, &["▁▁a "]), " a");
        assert_eq!(
            decoded(&back, &["<0xC3>", "<0xA9>", "<0xC3>", "x"]),
            "\u{fffd}\u{fffd}\u{fffd}x"
        );
        assert_eq!(decoded(&json!({ "type": "ByteLevel" }), &["Ġa", "a b"]), " aa b");
        assert_eq!(
            decoded(&json!({ "type": "Metaspace", "replacement": "▁" }), &["▁a▁b", "▁c"]),
            "ab c"
        );
        assert_eq!(
            decoded(&json!({ "type": "WordPiece", "prefix": "##" }), &["a", "##b", ".", "c"]),
            "ab. c"
        );
        assert_eq!(
            decoded(&json!({ "type": "BPEDecoder", "suffix": "</w>" }), &["a</w>", "b</w>"]),
            "a b"
        );
        assert_eq!(decoded(&Value::Null, &["a", "b"]), "a b");
    }
}

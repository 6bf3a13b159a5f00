//! A vocabulary in `tokenizer.jsonl`: each line has a token, its score and its type.

use ggmill_core::{MetadataBuf, RawStr, keys};
use ggmill_pipeline::Result;
use serde_json::Value;

use super::files::{self, fault};
use super::request::Request;
use super::special::{Special, write_last};
use super::tokens::{MAX_TOKENS, SCORED, TokenType, Tokens, bounded};

const FILE: &str = "tokenizer.jsonl";
/// The score of an ID that no token has.
const UNUSED_SCORE: f32 = -1000.0;
/// The roles of special tokens, in the order their IDs are written.
const ROLES: [&str; 5] = ["bos", "eos", "pad", "sep", "unk"];

/// Sets the keys of the vocabulary; `false` where the checkpoint has no such file.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(bytes) = files::vocabulary(request.files, FILE)? else { return Ok(false) };
    let text = String::from_utf8(bytes).map_err(|_| fault(FILE, "is not valid UTF-8"))?;
    let mut tokens = Tokens::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at =
            |message: &str| fault(FILE, format!("line {}: {message}", number.saturating_add(1)));
        if tokens.len() >= MAX_TOKENS {
            return Err(at("too many tokens"));
        }
        let (text, score, token_type) = token(line).map_err(at)?;
        tokens.push(text, score, token_type);
    }
    let size = bounded(request.size().unwrap_or_default())?;
    for number in 1..=size.saturating_sub(tokens.len()) {
        tokens.push(format!("[PAD{number}]"), UNUSED_SCORE, TokenType::Unused);
    }
    metadata.set(keys::TOKENIZER_MODEL, SCORED);
    metadata.set(keys::TOKENIZER_PRE, "default");
    tokens.write_to(true, request.spec, metadata);
    let mut special = Special::default();
    for role in ROLES {
        let config = request.tokenizer_config.as_ref();
        let named = config.and_then(|config| config.get(&format!("{role}_token")));
        let Some(named) = named.filter(|named| !named.is_null()) else { continue };
        let id = named.as_str().and_then(|text| tokens.id(text)).ok_or_else(|| {
            let named = named.to_string();
            let message = format!("{role}_token {}: not in the vocabulary", RawStr::from(&*named));
            fault("tokenizer_config.json", message)
        })?;
        special.default_id(role, id);
    }
    special.add_defaults(request, &tokens)?;
    special.write_to(metadata);
    write_last(request, &tokens, metadata);
    Ok(true)
}

/// The token of a line with its score and type.
fn token(line: &str) -> Result<(String, f32, TokenType), &'static str> {
    let line: Value = serde_json::from_str(line).map_err(|_| "is not valid JSON")?;
    let wrong = "expected a list of a token, its score and its type";
    let text = line.get(0).and_then(Value::as_str).ok_or(wrong)?;
    let score = line.get(1).and_then(Value::as_f64).ok_or(wrong)?;
    let special = text.starts_with("<|plamo:") && text.ends_with("|>");
    let token_type = match line.get(2).and_then(Value::as_str) {
        Some("UNKNOWN") => TokenType::Unknown,
        Some("CONTROL") => TokenType::Control,
        Some("BYTE") => TokenType::Byte,
        _ if special => TokenType::Control,
        _ => TokenType::Normal,
    };
    #[expect(clippy::cast_possible_truncation, reason = "as a file has scores")]
    Ok((text.to_owned(), score as f32, token_type))
}

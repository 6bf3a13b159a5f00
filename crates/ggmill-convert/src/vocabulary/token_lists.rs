//! Vocabularies in lists of tokens: RWKV World (a line has an ID, a Python literal and its length
//! in bytes), PLaMo 2 (`tokenizer.jsonl`) and llama2.c (`tokenizer.bin`).

use ggmill_core::{MetadataBuf, RawStr, keys};
use ggmill_pipeline::Result;
use ggmill_pipeline::formats::{Unambiguous, json_from_slice};
use serde_json::Value;

use super::files::{self, fault};
use super::python::{literal, repr};
use super::request::Request;
use super::special::{self, Special, SpecialOptions, write_last_special_tokens};
use super::tokens::{MAX_TOKENS, SCORED, SENTENCEPIECE, TokenType, Tokens, WORLD, bounded};

const WORLD_FILE: &str = "rwkv_vocab_v20230424.txt";
/// The default number of tokens.
const WORLD_SIZE: u64 = 65536;

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has no such file.
pub(crate) fn write_world(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(bytes) = files::vocabulary(request.files, WORLD_FILE)? else { return Ok(false) };
    let text = String::from_utf8(bytes).map_err(|_| fault(WORLD_FILE, "is not valid UTF-8"))?;
    let mut tokens = Tokens::default();
    tokens.push("<s>".to_owned(), 0.0, TokenType::Control);
    for (number, line) in text.lines().enumerate() {
        let at = |message: &str| {
            fault(WORLD_FILE, format!("line {}: {message}", number.saturating_add(1)))
        };
        if tokens.len() >= MAX_TOKENS {
            return Err(at("too many tokens"));
        }
        let token = world_token(line).map_err(|message| at(&message))?;
        tokens.push(token, 0.0, TokenType::Normal);
    }
    let size = bounded(request.size().unwrap_or(WORLD_SIZE))?;
    if tokens.len() > size {
        let message = format!("has {} tokens, but the model has {size}", tokens.len());
        return Err(fault(WORLD_FILE, message));
    }
    for id in tokens.len()..size {
        tokens.push(format!("[PAD{id}]"), 0.0, TokenType::Unused);
    }
    metadata.set(keys::TOKENIZER_MODEL, WORLD);
    tokens.write_to(false, request.spec, metadata);
    special::write(request, &tokens, SpecialOptions::default(), metadata)?;
    Ok(true)
}

/// Parses a line; returns the token as Python's `repr` of its bytes.
fn world_token(line: &str) -> Result<String, String> {
    let mut parts = line.splitn(2, ' ');
    let rest = parts.nth(1).and_then(|rest| rest.rsplit_once(' '));
    let (text, len) = rest.ok_or("expected an ID, a literal and a length")?;
    let bytes = literal(text)?;
    if len.trim().parse() != Ok(bytes.len()) {
        return Err(format!("the length is {:?}, but the literal has {} bytes", len, bytes.len()));
    }
    Ok(repr(&bytes))
}

const JSONL_FILE: &str = "tokenizer.jsonl";
/// The score of unused IDs.
const UNUSED_SCORE: f32 = -1000.0;
/// The roles of special tokens, in the order their IDs are written.
const ROLES: [&str; 5] = ["bos", "eos", "pad", "sep", "unk"];

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has no such file.
pub(crate) fn write_jsonl(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(bytes) = files::vocabulary(request.files, JSONL_FILE)? else { return Ok(false) };
    let text = String::from_utf8(bytes).map_err(|_| fault(JSONL_FILE, "is not valid UTF-8"))?;
    let mut tokens = Tokens::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |message: &str| {
            fault(JSONL_FILE, format!("line {}: {message}", number.saturating_add(1)))
        };
        if tokens.len() >= MAX_TOKENS {
            return Err(at("too many tokens"));
        }
        let (text, score, token_type) = jsonl_token(line).map_err(at)?;
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
    write_last_special_tokens(request, &tokens, metadata);
    Ok(true)
}

/// Parses a line: a token with its score and type.
fn jsonl_token(line: &str) -> Result<(String, f32, TokenType), &'static str> {
    let Unambiguous(line) =
        json_from_slice(line.as_bytes()).map_err(|_| "is not valid JSON, or too large")?;
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

pub(crate) const LLAMA2C_FILE: &str = "tokenizer.bin";

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has no such file.
pub(crate) fn write_llama2c(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(bytes) = files::vocabulary(request.files, LLAMA2C_FILE)? else { return Ok(false) };
    let size =
        request.size().ok_or_else(|| fault(LLAMA2C_FILE, "the model's vocab_size is unknown"))?;
    let size = bounded(size)?;
    let mut tokens = Tokens::default();
    // The length of the longest token is not needed.
    let mut rest = bytes.get(4..).unwrap_or_default();
    for id in 0..size {
        let (score, text, after) = llama2c_token(rest).ok_or_else(|| {
            fault(LLAMA2C_FILE, format!("ends within token {id}, but the model has {size} tokens"))
        })?;
        rest = after;
        let text = std::str::from_utf8(text)
            .map_err(|_| fault(LLAMA2C_FILE, format!("token {id} is not valid UTF-8")))?;
        let (text, token_type) = match (id, text) {
            (0, _) => ("<unk>", TokenType::Unknown),
            (1, _) => ("<s>", TokenType::Control),
            (2, _) => ("</s>", TokenType::Control),
            (_, "") => (text, TokenType::Control),
            _ if is_byte(text) => (text, TokenType::Byte),
            _ => (text, TokenType::Normal),
        };
        tokens.push(text.replace(' ', "\u{2581}"), score, token_type);
    }
    if !rest.is_empty() {
        let message = format!("{} bytes follow the {size} tokens of the model", rest.len());
        return Err(fault(LLAMA2C_FILE, message));
    }
    metadata.set(keys::TOKENIZER_MODEL, SENTENCEPIECE);
    metadata.set(keys::TOKENIZER_PRE, request.pre.unwrap_or("default"));
    tokens.write_to(true, request.spec, metadata);
    for (key, id) in [("unknown", 0u32), ("bos", 1), ("eos", 2)] {
        metadata.set(format!("tokenizer.ggml.{key}_token_id"), id);
    }
    Ok(true)
}

/// Parses a token: its score, its text and the remaining bytes.
fn llama2c_token(bytes: &[u8]) -> Option<(f32, &[u8], &[u8])> {
    let (score, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let (text, rest) = rest.split_at_checked(len)?;
    Some((f32::from_le_bytes(*score), text, rest))
}

/// Returns `true` for the text of a byte token, such as `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_in_bounded_memory() {
        let line = format!("[\"a\", 1, {}1]", "{\"\":1},".repeat(1_000_000));
        assert_eq!(jsonl_token(&line).unwrap_err(), "is not valid JSON, or too large");
        let (text, score, kind) = jsonl_token("[\"a\", 1.5, \"BYTE\"]").unwrap();
        assert_eq!((&*text, score), ("a", 1.5));
        assert!(matches!(kind, TokenType::Byte));
    }
}

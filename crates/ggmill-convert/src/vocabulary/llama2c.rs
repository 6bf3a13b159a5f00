//! The vocabulary of llama2.c, `tokenizer.bin`: the length of the longest token, then for each its
//! score, its length and its text. What is special about a token follows from its ID and its text,
//! as in llama.cpp's `convert-llama2c-to-ggml`.

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;

use super::files::{self, fault};
use super::request::Request;
use super::tokens::{SENTENCEPIECE, TokenType, Tokens, bounded};

pub(crate) const FILE: &str = "tokenizer.bin";

/// Sets the keys of the vocabulary; `false` where the checkpoint has no such file.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(bytes) = files::vocabulary(request.files, FILE)? else { return Ok(false) };
    let size = request.size().ok_or_else(|| fault(FILE, "the model's vocab_size is unknown"))?;
    let size = bounded(size)?;
    let mut tokens = Tokens::default();
    // The length of the longest token is not needed.
    let mut rest = bytes.get(4..).unwrap_or_default();
    for id in 0..size {
        let (score, text, after) = token(rest).ok_or_else(|| {
            fault(FILE, format!("ends within token {id}, but the model has {size} tokens"))
        })?;
        rest = after;
        let text = std::str::from_utf8(text)
            .map_err(|_| fault(FILE, format!("token {id} is not valid UTF-8")))?;
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
        return Err(fault(FILE, message));
    }
    metadata.set(keys::TOKENIZER_MODEL, SENTENCEPIECE);
    metadata.set(keys::TOKENIZER_PRE, request.pre.unwrap_or("default"));
    tokens.write_to(true, request.spec, metadata);
    for (key, id) in [("unknown", 0u32), ("bos", 1), ("eos", 2)] {
        metadata.set(format!("tokenizer.ggml.{key}_token_id"), id);
    }
    Ok(true)
}

/// A token's score and text, and the bytes after it.
fn token(bytes: &[u8]) -> Option<(f32, &[u8], &[u8])> {
    let (score, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let (text, rest) = rest.split_at_checked(len)?;
    Some((f32::from_le_bytes(*score), text, rest))
}

/// Whether a text stands for a byte: `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}

//! A vocabulary of byte sequences that are matched greedily: each line of the file has an ID, a
//! literal of the Python language, and the number of its bytes.

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;

use super::files::{self, fault};
use super::python::{literal, repr};
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::{MAX_TOKENS, TokenType, Tokens, WORLD, bounded};

const FILE: &str = "rwkv_vocab_v20230424.txt";
/// The number of tokens where the configuration says nothing.
const SIZE: u64 = 65536;

/// Sets the keys of the vocabulary; `false` where the checkpoint has no such file.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(bytes) = files::vocabulary(request.files, FILE)? else { return Ok(false) };
    let text = String::from_utf8(bytes).map_err(|_| fault(FILE, "is not valid UTF-8"))?;
    let mut tokens = Tokens::default();
    tokens.push("<s>".to_owned(), 0.0, TokenType::Control);
    for (number, line) in text.lines().enumerate() {
        let at =
            |message: &str| fault(FILE, format!("line {}: {message}", number.saturating_add(1)));
        if tokens.len() >= MAX_TOKENS {
            return Err(at("too many tokens"));
        }
        let token = token(line).map_err(|message| at(&message))?;
        tokens.push(token, 0.0, TokenType::Normal);
    }
    let size = bounded(request.size().unwrap_or(SIZE))?;
    if tokens.len() > size {
        let message = format!("has {} tokens, but the model has {size}", tokens.len());
        return Err(fault(FILE, message));
    }
    for id in tokens.len()..size {
        tokens.push(format!("[PAD{id}]"), 0.0, TokenType::Unused);
    }
    metadata.set(keys::TOKENIZER_MODEL, WORLD);
    tokens.write_to(false, request.spec, metadata);
    special::write(request, &tokens, SpecialOptions::default(), metadata)?;
    Ok(true)
}

/// The token of a line, as a file has it: its bytes as Python shows them.
fn token(line: &str) -> Result<String, String> {
    let mut parts = line.splitn(2, ' ');
    let rest = parts.nth(1).and_then(|rest| rest.rsplit_once(' '));
    let (text, len) = rest.ok_or("expected an ID, a literal and a length")?;
    let bytes = literal(text)?;
    if len.trim().parse() != Ok(bytes.len()) {
        return Err(format!("the length is {:?}, but the literal has {} bytes", len, bytes.len()));
    }
    Ok(repr(&bytes))
}

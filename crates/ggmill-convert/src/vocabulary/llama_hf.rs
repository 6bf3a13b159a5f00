//! A vocabulary of SentencePiece's kind in `tokenizer.json`: BPE over characters that falls back
//! to bytes.

use std::collections::HashSet;

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;
use ggmill_tokenizer::tokenizer_json::{ModelKind, byte_token};
use serde_json::Value;

use super::fast::Fast;
use super::files::fault;
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::{CHARACTER_BPE, SENTENCEPIECE, TokenType, Tokens, bounded};

const FILE: &str = "tokenizer.json";
/// Such a vocabulary has no scores; the merges order it.
const SCORE: f32 = -1000.0;
const NUL: &str = "\0";
/// What the reference writes for it.
const SHOWN_NUL: &str = r"<b'\x00'>";

/// Sets the keys of the vocabulary; `false` where the checkpoint has no such file, or one of
/// another kind.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(tokens) = read(request)? else { return Ok(false) };
    write_pieces(request, tokens, true, metadata)
}

/// The same with merges, for readers that apply them.
pub(crate) fn write_with_merges(
    request: &mut Request<'_>,
    metadata: &mut MetadataBuf,
) -> Result<bool> {
    let Some(mut tokens) = read(request)? else { return Ok(false) };
    metadata.set(keys::TOKENIZER_MODEL, CHARACTER_BPE);
    tokens.write_to(true, request.spec, metadata);
    let options = SpecialOptions { merges: true, limit: None };
    special::write(request, &tokens, options, metadata)?;
    Ok(true)
}

/// The tokens of any BPE model as pieces, without scores and without merges. Each ID has to have
/// one.
pub(crate) fn write_unscored(
    request: &mut Request<'_>,
    metadata: &mut MetadataBuf,
) -> Result<bool> {
    let Some(file) = request.tokenizer_of(ModelKind::Bpe)? else { return Ok(false) };
    let tokenizer = Fast::of(&file, request)?;
    let by_id = tokenizer.vocabulary()?;
    let size = bounded(request.size().unwrap_or(by_id.len() as u64))?;
    if let Some((last, _)) = by_id.last_key_value().filter(|(last, _)| **last as usize >= size) {
        return Err(fault(FILE, format!("token ID {last} is out of range: vocab_size is {size}")));
    }
    let mut tokens = Tokens::default();
    for id in 0..u32::try_from(size).unwrap_or(u32::MAX) {
        let text = by_id.get(&id).ok_or_else(|| {
            fault(FILE, format!("the model has {size} tokens, but none with ID {id}"))
        })?;
        let token_type = if *text == NUL || byte_token(text).is_some() {
            TokenType::Byte
        } else {
            match tokenizer.added().get(&id) {
                Some(token) if token.special => TokenType::Control,
                Some(_) => TokenType::UserDefined,
                None => TokenType::Normal,
            }
        };
        // The reference writes a token of one NUL character as Python shows it.
        let text = if *text == NUL { SHOWN_NUL } else { text };
        tokens.push(text.to_owned(), SCORE, token_type);
    }
    write_pieces(request, tokens, false, metadata)
}

/// Sets the keys of pieces without merges; their scores are equal, and may be left out.
fn write_pieces(
    request: &mut Request<'_>,
    mut tokens: Tokens,
    scores: bool,
    metadata: &mut MetadataBuf,
) -> Result<bool> {
    metadata.set(keys::TOKENIZER_MODEL, SENTENCEPIECE);
    metadata.set(keys::TOKENIZER_PRE, "default");
    tokens.write_to(scores, request.spec, metadata);
    let options = SpecialOptions { merges: false, limit: Some(tokens.len()) };
    special::write(request, &tokens, options, metadata)?;
    Ok(true)
}

/// The tokens, where the checkpoint has a vocabulary of this kind.
fn read(request: &mut Request<'_>) -> Result<Option<Tokens>> {
    let Some(file) = request.tokenizer_of(ModelKind::Bpe)? else { return Ok(None) };
    let fits = file.model.byte_fallback == Some(true)
        && file.decoder.get("type").and_then(Value::as_str) == Some("Sequence");
    if !fits {
        return Ok(None);
    }
    let Some(tokenizer) = Fast::load(request)? else { return Ok(None) };
    tokens(&tokenizer).map(Some)
}

fn tokens(tokenizer: &Fast) -> Result<Tokens> {
    let by_id = tokenizer.vocabulary()?;
    let special: HashSet<String> = tokenizer.special().into_iter().collect();
    let size = bounded(tokenizer.model_size() as u64)?;
    let mut tokens = Tokens::default();
    for id in 0..u32::try_from(size).unwrap_or(u32::MAX) {
        let text = by_id.get(&id).ok_or_else(|| {
            fault(FILE, format!("the model has {size} tokens, but none with ID {id}"))
        })?;
        let token_type = if byte_token(text).is_some() {
            TokenType::Byte
        } else if special.contains(*text) {
            TokenType::Control
        } else {
            TokenType::Normal
        };
        tokens.push((*text).to_owned(), SCORE, token_type);
    }
    for token in tokenizer.added().range(u32::try_from(size).unwrap_or(u32::MAX)..).map(|it| it.1) {
        let token_type = if special.contains(&token.content) {
            TokenType::Control
        } else {
            TokenType::UserDefined
        };
        tokens.push(token.content.clone(), SCORE, token_type);
    }
    Ok(tokens)
}

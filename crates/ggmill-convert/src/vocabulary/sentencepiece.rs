//! A SentencePiece vocabulary: `tokenizer.model` and what is added to it.

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;
use serde_json::Value;

use super::files::{self, fault};
use super::model_proto::{ModelProto, PieceKind};
use super::request::Request;
use super::special::{Special, SpecialOptions};
use super::tokens::{SENTENCEPIECE, TokenType, Tokens, looks_special, with_spaces};

/// The pieces.
const MODEL: &str = "tokenizer.model";
/// Tokens added to them, by text.
const ADDED: &str = "added_tokens.json";

/// The score of a token that is not a piece.
const ADDED_SCORE: f32 = -1000.0;
/// The score of an ID that no token has.
const UNUSED_SCORE: f32 = -10000.0;

/// Sets the keys of the vocabulary; `false` where the checkpoint has no such model.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(bytes) = files::vocabulary(request.files, MODEL)? else { return Ok(false) };
    let model = ModelProto::parse(&bytes).map_err(|message| fault(MODEL, message))?;
    let tokens = tokens(request, &model)?;
    metadata.set(keys::TOKENIZER_MODEL, SENTENCEPIECE);
    metadata.set(keys::TOKENIZER_PRE, "default");
    tokens.write_to(true, metadata);
    let options = SpecialOptions { limit: Some(tokens.len()), ..SpecialOptions::default() };
    Special::load(request, options)?.write_to(metadata);
    Ok(true)
}

/// Pieces, added tokens and placeholders up to the size of the vocabulary.
fn tokens(request: &mut Request<'_>, model: &ModelProto) -> Result<Tokens> {
    let size = request
        .number("vocab_size_per_layer_input")
        .or_else(|| request.number("vocab_size"))
        .filter(|&size| size > 0)
        .unwrap_or(model.pieces.len() as u64);
    let mut tokens = Tokens::placeholders(size, UNUSED_SCORE)?;
    for (id, piece) in model.pieces.iter().enumerate() {
        let token_type = match piece.kind {
            PieceKind::Normal | PieceKind::UserDefined => TokenType::Normal,
            PieceKind::Unknown => TokenType::Unknown,
            PieceKind::Control => TokenType::Control,
            PieceKind::Unused => TokenType::Unused,
            PieceKind::Byte => TokenType::Byte,
        };
        if !tokens.set(id, piece.text.clone(), piece.score, token_type) {
            let left_out = model.pieces.len().saturating_sub(id);
            request.notes.push(format!(
                "{MODEL} has {} pieces, the model {size} tokens: {left_out} pieces were left out",
                model.pieces.len(),
            ));
            break;
        }
    }
    for (id, token) in added_by_text(request)? {
        let what = format!("{ADDED}: {token:?}");
        if !tokens.set(id, token, ADDED_SCORE, TokenType::UserDefined) {
            request.notes.push(format!("{what}: token ID {id} out of range, was left out"));
        }
    }
    for added in added_by_id(request)? {
        let (text, token_type) = if added.special || looks_special(&added.content) {
            (added.content, TokenType::Control)
        } else {
            (with_spaces(&added.content), TokenType::UserDefined)
        };
        let id = added.id;
        if !tokens.set(id, text, ADDED_SCORE, token_type) {
            request.notes.push(format!(
                "tokenizer_config.json: added token ID {id} out of range, was left out"
            ));
        }
    }
    Ok(tokens)
}

/// The tokens of `added_tokens.json`, by ID.
fn added_by_text(request: &Request<'_>) -> Result<Vec<(usize, String)>> {
    let Some(added) = files::json(request.files, ADDED)? else { return Ok(Vec::new()) };
    let Value::Object(added) = added else { return Err(fault(ADDED, "expected an object")) };
    let mut found = Vec::with_capacity(added.len());
    for (text, id) in added {
        let id = id.as_u64().and_then(|id| usize::try_from(id).ok());
        let id = id.ok_or_else(|| fault(ADDED, format!("{text:?}: expected a token ID")))?;
        found.push((id, text));
    }
    found.sort_unstable();
    refuse_duplicates(ADDED, found.iter().map(|&(id, _)| id))?;
    Ok(found)
}

/// A token of `added_tokens_decoder`.
struct Added {
    id: usize,
    content: String,
    special: bool,
}

/// The tokens of `added_tokens_decoder` in `tokenizer_config.json`.
fn added_by_id(request: &Request<'_>) -> Result<Vec<Added>> {
    const FILE: &str = "tokenizer_config.json";
    let Some(config) = &request.tokenizer_config else { return Ok(Vec::new()) };
    let Some(decoder) = config.get("added_tokens_decoder") else { return Ok(Vec::new()) };
    let wrong = || fault(FILE, "added_tokens_decoder: expected token IDs with content");
    let mut found = Vec::new();
    for (id, token) in decoder.as_object().ok_or_else(wrong)? {
        let id = id.trim().parse().map_err(|_| wrong())?;
        let content = token.get("content").and_then(Value::as_str).ok_or_else(wrong)?.to_owned();
        let special = token.get("special").is_some_and(super::python::truthy);
        found.push(Added { id, content, special });
    }
    found.sort_unstable_by_key(|added| added.id);
    refuse_duplicates(FILE, found.iter().map(|added| added.id))?;
    Ok(found)
}

/// Fails where two added tokens have one ID; which one a reader takes is not defined.
fn refuse_duplicates(file: &str, sorted: impl Iterator<Item = usize> + Clone) -> Result<()> {
    match sorted.clone().zip(sorted.skip(1)).find(|(one, other)| one == other) {
        Some((id, _)) => Err(fault(file, format!("two added tokens have ID {id}"))),
        None => Ok(()),
    }
}

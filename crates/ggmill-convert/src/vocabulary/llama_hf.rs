//! A SentencePiece-like vocabulary in `tokenizer.json`: character-level BPE with byte fallback.

use std::collections::{HashMap, HashSet};

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;
use ggmill_tokenizer::tokenizer_json::{Merge, ModelKind, TokenizerJson, byte_token};
use serde_json::Value;

use super::fast::Fast;
use super::files::fault;
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::{CHARACTER_BPE, SENTENCEPIECE, TokenType, Tokens, bounded};

const FILE: &str = "tokenizer.json";
/// The score of every token without merges.
const SCORE: f32 = -1000.0;
/// The score of a token that no merge makes, in a vocabulary with merges. It is less than that of
/// any merge.
const UNMERGED_SCORE: f32 = -1e9;
const NUL: &str = "\0";
/// The text that the reference writes for NUL.
const SHOWN_NUL: &str = r"<b'\x00'>";

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has no such file, or one of
/// another kind.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(tokens) = read(request, is_llama)? else { return Ok(false) };
    write_pieces(request, tokens, true, metadata)
}

/// Adds the keys of the vocabulary of any character-level BPE model; returns `false` if the checkpoint
/// has none.
pub(crate) fn write_any(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(tokens) = read(request, is_character_level)? else { return Ok(false) };
    if !tokens.types.contains(&(TokenType::Byte as i32)) {
        request.notes.push(format!(
            "{FILE}: the vocabulary has no byte tokens, so that llama.cpp stops at a character that \
             is not a token"
        ));
    }
    write_pieces(request, tokens, true, metadata)
}

/// Adds the keys of the vocabulary with merges, for programs that apply them; returns `false` as
/// [`write`] does.
pub(crate) fn write_with_merges(
    request: &mut Request<'_>,
    metadata: &mut MetadataBuf,
) -> Result<bool> {
    let Some(mut tokens) = read(request, is_llama)? else { return Ok(false) };
    tokens.scores.fill(SCORE);
    metadata.set(keys::TOKENIZER_MODEL, CHARACTER_BPE);
    tokens.write_to(true, request.spec, metadata);
    let options = SpecialOptions { merges: true, limit: None };
    special::write(request, &tokens, options, metadata)?;
    Ok(true)
}

/// Adds the keys of any BPE vocabulary as pieces without scores and merges. Fails if an ID has no
/// token.
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
        // The reference writes a NUL token as Python's `repr`.
        let text = if *text == NUL { SHOWN_NUL } else { text };
        tokens.push(text.to_owned(), SCORE, token_type);
    }
    write_pieces(request, tokens, false, metadata)
}

/// Adds the keys of pieces without merges. Their scores are all equal, and optional.
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

/// Returns `true` for the form of SentencePiece models in the `transformers` library: BPE with byte
/// fallback.
fn is_llama(file: &TokenizerJson) -> bool {
    file.model.byte_fallback == Some(true)
        && file.decoder.get("type").and_then(Value::as_str) == Some("Sequence")
}

/// Returns `true` if the tokens are texts in which U+2581 stands for a space.
pub(crate) fn is_character_level(file: &TokenizerJson) -> bool {
    let writes_mark = [&file.normalizer, &file.pre_tokenizer, &file.decoder]
        .into_iter()
        .any(|part| has_type(part, "Metaspace") || part.to_string().contains('\u{2581}'));
    let is_byte_level =
        has_type(&file.pre_tokenizer, "ByteLevel") || has_type(&file.normalizer, "ByteLevel");
    !is_byte_level && (writes_mark || file.model.byte_fallback == Some(true))
}

/// Returns `true` if a component or a part of it has this type.
pub(crate) fn has_type(component: &Value, name: &str) -> bool {
    match component {
        Value::Object(members) => {
            members.get("type").and_then(Value::as_str) == Some(name)
                || members.values().any(|member| has_type(member, name))
        }
        Value::Array(parts) => parts.iter().any(|part| has_type(part, name)),
        _ => false,
    }
}

/// Returns the tokens if the checkpoint has a vocabulary of this kind.
fn read(
    request: &mut Request<'_>,
    fits: impl Fn(&TokenizerJson) -> bool,
) -> Result<Option<Tokens>> {
    let Some(file) = request.tokenizer_of(ModelKind::Bpe)? else { return Ok(None) };
    if !fits(&file) {
        return Ok(None);
    }
    let tokenizer = Fast::of(&file, request)?;
    tokens(&tokenizer).map(Some)
}

/// Returns the score of each token that a merge makes: the negated rank of its first merge. llama.cpp
/// merges the pair of adjacent symbols whose concatenation has the highest score, so it applies the
/// merges by rank.
fn scores(file: &TokenizerJson) -> HashMap<String, f32> {
    let mut scores = HashMap::new();
    for (rank, merge) in file.model.merges().iter().enumerate() {
        let product = match merge {
            Merge::Pair(left, right) => format!("{left}{right}"),
            Merge::Joined(merge) => merge.replacen(' ', "", 1),
        };
        #[expect(clippy::cast_precision_loss, reason = "less than 2^24 merges")]
        scores.entry(product).or_insert(0.0 - rank as f32);
    }
    scores
}

fn tokens(tokenizer: &Fast) -> Result<Tokens> {
    let by_id = tokenizer.vocabulary()?;
    let added = tokenizer.added();
    let special: HashSet<String> = tokenizer.special().into_iter().collect();
    let size = bounded(tokenizer.model_size() as u64)?;
    let scores = scores(tokenizer.file());
    let unmerged = if scores.is_empty() { SCORE } else { UNMERGED_SCORE };
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
            match added.get(&id) {
                Some(token) if token.special => TokenType::Control,
                // Texts have spaces in place of this character, so that merges make such a token.
                Some(_) if !text.contains('\u{2581}') => TokenType::UserDefined,
                _ => TokenType::Normal,
            }
        };
        let score = scores.get(*text).copied().unwrap_or(unmerged);
        tokens.push((*text).to_owned(), score, token_type);
    }
    let first = u32::try_from(size).unwrap_or(u32::MAX);
    for (&id, token) in added.range(first..) {
        while tokens.len() < id as usize {
            tokens.push(format!("[PAD{}]", tokens.len()), unmerged, TokenType::Unused);
        }
        let is_special = token.special || special.contains(&token.content);
        let token_type = if is_special { TokenType::Control } else { TokenType::UserDefined };
        tokens.push(token.content.clone(), unmerged, token_type);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_score_is_the_rank_of_the_first_merge() {
        let file: TokenizerJson = serde_json::from_value(json!({ "model": { "type": "BPE",
            "vocab": { "a": 0, "b": 1, "ab": 2, "aab": 3 },
            "merges": [["a", "b"], "a ab", ["aa", "b"]] } }))
        .unwrap();
        let expected = HashMap::from([("ab".to_owned(), 0.0), ("aab".to_owned(), -1.0)]);
        assert_eq!(scores(&file), expected);
    }

    #[test]
    fn character_level_models_are_recognized() {
        let file = |text: serde_json::Value| serde_json::from_value(text).unwrap();
        let metaspace = json!({ "type": "Sequence", "pretokenizers": [{ "type": "Metaspace" }] });
        assert!(is_character_level(&file(json!({ "pre_tokenizer": metaspace }))));
        assert!(!is_character_level(&file(json!({ "pre_tokenizer": { "type": "ByteLevel" } }))));
        assert!(!is_character_level(&file(json!({}))));
    }
}

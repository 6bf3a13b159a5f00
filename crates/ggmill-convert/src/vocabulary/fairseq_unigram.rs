//! A unigram vocabulary whose first four tokens are those of the fairseq library.
//!
//! The SentencePiece model of such a checkpoint has three other tokens first, so its remaining
//! pieces are shifted by one ID. `tokenizer.json` has the final IDs.

use std::collections::BTreeSet;

use ggmill_core::MetadataBuf;
use ggmill_pipeline::Result;
use serde_json::Value;

use super::fast::Fast;
use super::files::{self, fault};
use super::model_proto::{Algorithm, ModelProto};
use super::request::Request;
use super::sentencepiece::{self, Normalizer, write_tokens};
use super::tokens::{TokenType, Tokens};
use ggmill_tokenizer::tokenizer_json::{ModelKind, byte_token, decode_base64};

const MODEL: &str = "sentencepiece.bpe.model";
const FILE: &str = "tokenizer.json";

/// The first tokens, with their types.
const FIRST: [(&str, TokenType); 4] = [
    ("<s>", TokenType::Control),
    ("<pad>", TokenType::Control),
    ("</s>", TokenType::Control),
    ("<unk>", TokenType::Unknown),
];

/// The score of unused IDs.
const UNUSED_SCORE: f32 = -10000.0;

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has none of this kind.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let found = match files::vocabulary(request.files, MODEL)? {
        Some(bytes) => Some(of_model(request, &bytes)?),
        None => of_tokenizer(request)?,
    };
    let Some((mut tokens, normalizer)) = found else { return Ok(false) };
    write_tokens(request, &mut tokens, &normalizer, true, metadata)?;
    Ok(true)
}

fn of_model(request: &mut Request<'_>, bytes: &[u8]) -> Result<(Tokens, Normalizer)> {
    let model = ModelProto::parse(bytes).map_err(|message| fault(MODEL, message))?;
    if model.algorithm != Algorithm::Unigram {
        return Err(fault(MODEL, "is not a unigram model"));
    }
    let size = request.size().unwrap_or_default().max(model.pieces.len() as u64);
    let pieces = sentencepiece::of_model(request, MODEL, &model, size)?;
    let mut tokens = Tokens::default();
    for (text, token_type) in FIRST {
        tokens.push(text.to_owned(), 0.0, token_type);
    }
    let rest = 3..pieces.len().saturating_sub(1);
    tokens.texts.extend_from_slice(pieces.texts.get(rest.clone()).unwrap_or_default());
    tokens.scores.extend_from_slice(pieces.scores.get(rest.clone()).unwrap_or_default());
    tokens.types.extend_from_slice(pieces.types.get(rest).unwrap_or_default());
    if let Some(id) = request.spec.pieces.mask {
        let id = usize::try_from(id).unwrap_or(usize::MAX);
        if !tokens.set(id, "<mask>".to_owned(), 0.0, TokenType::Control) {
            return Err(fault(
                MODEL,
                format!("the vocabulary ends before the mask token, whose ID is {id}"),
            ));
        }
    }
    Ok((tokens, Normalizer::of_model(model)))
}

/// Adds the keys of a unigram vocabulary in `tokenizer.json`; returns `false` if the checkpoint has
/// none.
pub(crate) fn write_any(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some((mut tokens, normalizer)) = of_tokenizer(request)? else { return Ok(false) };
    write_tokens(request, &mut tokens, &normalizer, false, metadata)?;
    Ok(true)
}

fn of_tokenizer(request: &mut Request<'_>) -> Result<Option<(Tokens, Normalizer)>> {
    let Some(file) = request.tokenizer_of(ModelKind::Unigram)? else { return Ok(None) };
    let tokenizer = Fast::of(&file, request)?;
    let scored = &file.model.vocab;
    let by_id = tokenizer.vocabulary()?;
    let added = tokenizer.added();
    let last = by_id.last_key_value().map_or(0, |(&last, _)| u64::from(last).saturating_add(1));
    let size = request.size().unwrap_or_default().max(last);
    let mut tokens = Tokens::placeholders(size, UNUSED_SCORE)?;
    let special: BTreeSet<String> = tokenizer.special().into_iter().collect();
    let unknown = request.tokenizer_config.as_ref().and_then(|config| config.get("unk_token"));
    let unknown = unknown
        .and_then(Value::as_str)
        .and_then(|token| added.iter().find(|(_, known)| known.content == token))
        .map_or_else(|| file.model.unk_id.unwrap_or(3), |(id, _)| *id);
    for (&id, &text) in &by_id {
        let is_special = added.get(&id).is_some_and(|token| token.special);
        let token_type = if id == unknown {
            TokenType::Unknown
        } else if special.contains(text) || is_special {
            TokenType::Control
        } else if added.contains_key(&id) {
            TokenType::UserDefined
        } else if file.model.byte_fallback == Some(true) && byte_token(text).is_some() {
            TokenType::Byte
        } else {
            TokenType::Normal
        };
        let place = usize::try_from(id).unwrap_or(usize::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "GGUF stores scores as f32")]
        let score = scored.scores.get(place).map_or(0.0, |&score| score as f32);
        tokens.set(place, text.to_owned(), score, token_type);
    }
    let normalizer = Normalizer {
        add_prefix: tokenizer.class().flag("add_prefix_space"),
        remove_spaces: tokenizer.class().flag("clean_up_tokenization_spaces"),
        charsmap: charsmap(&file.normalizer)?,
    };
    Ok(Some((tokens, normalizer)))
}

/// Returns SentencePiece's precompiled character map in a normalizer.
fn charsmap(normalizer: &Value) -> Result<Vec<u8>> {
    let parts = normalizer.get("normalizers").and_then(Value::as_array);
    let own = normalizer.get("precompiled_charsmap");
    let found = own.or_else(|| parts?.iter().find_map(|part| part.get("precompiled_charsmap")));
    let Some(text) = found.and_then(Value::as_str) else { return Ok(Vec::new()) };
    decode_base64(text).map_err(|fault_in| fault(FILE, format!("precompiled_charsmap {fault_in}")))
}

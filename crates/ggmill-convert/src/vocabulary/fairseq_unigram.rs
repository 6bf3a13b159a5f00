//! A unigram vocabulary whose first four tokens are those of the fairseq library.
//!
//! The SentencePiece model of such a checkpoint has other ones in their place, and the others one
//! place earlier; `tokenizer.json` has them all.

use std::collections::BTreeSet;

use ggmill_core::MetadataBuf;
use ggmill_pipeline::Result;
use ggmill_tokenizer::tokenizer_json::ModelKind;
use serde_json::Value;

use super::base64;
use super::fast::Fast;
use super::files::{self, fault};
use super::model_proto::{Algorithm, ModelProto};
use super::pieces;
use super::request::Request;
use super::tokens::{TokenType, Tokens};
use super::unigram::{Normalizer, write_tokens};

const MODEL: &str = "sentencepiece.bpe.model";
const FILE: &str = "tokenizer.json";

/// The tokens that come first, with their types.
const FIRST: [(&str, TokenType); 4] = [
    ("<s>", TokenType::Control),
    ("<pad>", TokenType::Control),
    ("</s>", TokenType::Control),
    ("<unk>", TokenType::Unknown),
];

/// The score of an ID that no token has.
const UNUSED_SCORE: f32 = -10000.0;

/// Sets the keys of the vocabulary; `false` where the checkpoint has none of this kind.
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
    let pieces = pieces::of_model(request, MODEL, &model, size)?;
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

fn of_tokenizer(request: &mut Request<'_>) -> Result<Option<(Tokens, Normalizer)>> {
    let Some(file) = request.tokenizer_of(ModelKind::Unigram)? else { return Ok(None) };
    let tokenizer = Fast::of(&file, request)?;
    let scored = &file.model.vocab;
    let size = request.size().unwrap_or_default().max(scored.tokens.len() as u64);
    let mut tokens = Tokens::placeholders(size, UNUSED_SCORE)?;
    let by_id = tokenizer.vocabulary()?;
    let added = tokenizer.added();
    let special: BTreeSet<String> = tokenizer.special().into_iter().collect();
    let unknown = request.tokenizer_config.as_ref().and_then(|config| config.get("unk_token"));
    let unknown = unknown
        .and_then(Value::as_str)
        .and_then(|token| added.iter().find(|(_, known)| known.content == token))
        .map_or_else(|| file.model.unk_id.unwrap_or(3), |(id, _)| *id);
    for (id, score) in (0u32..).zip(&scored.scores) {
        let Some(text) = by_id.get(&id) else { continue };
        let token_type = if id == unknown {
            TokenType::Unknown
        } else if special.contains(*text) {
            TokenType::Control
        } else if added.contains_key(&id) {
            TokenType::UserDefined
        } else {
            TokenType::Normal
        };
        tokens.set(
            usize::try_from(id).unwrap_or(usize::MAX),
            (*text).to_owned(),
            *score,
            token_type,
        );
    }
    let normalizer = Normalizer {
        add_prefix: tokenizer.class().flag("add_prefix_space"),
        remove_spaces: tokenizer.class().flag("clean_up_tokenization_spaces"),
        charsmap: charsmap(&file.normalizer)?,
    };
    Ok(Some((tokens, normalizer)))
}

/// SentencePiece's compiled map of characters in a normalizer.
fn charsmap(normalizer: &Value) -> Result<Vec<u8>> {
    let parts = normalizer.get("normalizers").and_then(Value::as_array);
    let own = normalizer.get("precompiled_charsmap");
    let found = own.or_else(|| parts?.iter().find_map(|part| part.get("precompiled_charsmap")));
    let Some(text) = found.and_then(Value::as_str) else { return Ok(Vec::new()) };
    base64::decoded(text)
        .map_err(|fault_in| fault(FILE, format!("precompiled_charsmap {fault_in}")))
}

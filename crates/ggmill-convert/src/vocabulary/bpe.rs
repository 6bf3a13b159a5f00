//! A byte-level BPE vocabulary: the tokens of `tokenizer.json`, or of `vocab.json` and `merges.txt`,
//! its merges and its pre-tokenizer.

use ggmill_arch::AddedTokens;
use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;
use ggmill_tokenizer::tokenizer_json::{ModelKind, TokenizerJson};
use serde_json::Value;

use super::fast::Fast;
use super::files::fault;
use super::pretokenizer;
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::{
    BYTE_LEVEL, TokenType, Tokens, WHITESPACE, bounded, looks_special, with_spaces,
};

const FILE: &str = "tokenizer.json";

/// Sets the keys of the vocabulary; `false` where the checkpoint has no such file.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let tokenizer = if request.tokenizer()?.is_some() {
        let file = request.tokenizer_of(ModelKind::Bpe)?;
        file.map(|file| Fast::of(&file, request)).transpose()?
    } else {
        Fast::of_pairs(request)?
    };
    let Some(tokenizer) = tokenizer else { return Ok(false) };
    let mut tokens = tokens(request, &tokenizer)?;
    let pre = pretokenizer::name(request, &tokenizer)?;
    metadata.set(keys::TOKENIZER_MODEL, BYTE_LEVEL);
    metadata.set(keys::TOKENIZER_PRE, &*pre);
    tokens.write_to(false, request.spec, metadata);
    let options = SpecialOptions { merges: true, limit: None };
    special::write(request, &tokens, options, metadata)?;
    Ok(true)
}

/// The same for a model that splits texts at whitespace: its name for readers says so.
pub(crate) fn write_whitespace(
    request: &mut Request<'_>,
    metadata: &mut MetadataBuf,
) -> Result<bool> {
    let splits = |file: &TokenizerJson| {
        file.pre_tokenizer.get("type").and_then(Value::as_str) == Some("Whitespace")
    };
    if !request.tokenizer()?.is_some_and(|file| splits(&file)) || !write(request, metadata)? {
        return Ok(false);
    }
    metadata.set(keys::TOKENIZER_MODEL, WHITESPACE);
    metadata.set(keys::TOKENIZER_PRE, WHITESPACE);
    Ok(true)
}

/// The tokens by ID, with placeholders where an ID has none, up to the size of the vocabulary.
pub(crate) fn tokens(request: &Request<'_>, tokenizer: &Fast) -> Result<Tokens> {
    let by_id = tokenizer.vocabulary()?;
    let added = tokenizer.added();
    let size = request.size().unwrap_or(by_id.len() as u64);
    if let Some((&last, token)) = by_id.last_key_value()
        && u64::from(last) >= size
    {
        let message = format!("token ID {last} of {token:?} is out of range: vocab_size is {size}");
        return Err(fault(FILE, message));
    }
    let count = bounded(size)?;
    let rule = request.spec.added_tokens;
    let mut tokens = Tokens::default();
    for id in 0..u32::try_from(count).unwrap_or(u32::MAX) {
        let Some(text) = by_id.get(&id) else {
            tokens.push(format!("[PAD{id}]"), 0.0, TokenType::Unused);
            continue;
        };
        let Some(token) = added.get(&id) else {
            tokens.push((*text).to_owned(), 0.0, TokenType::Normal);
            continue;
        };
        // Readers take these tokens as normalized.
        let text = if token.normalized || rule == AddedTokens::Plain {
            (*text).to_owned()
        } else {
            tokenizer.decoded(text)?
        };
        let looks = rule != AddedTokens::Plain && looks_special(&text);
        if token.special || looks {
            tokens.push(text, 0.0, TokenType::Control);
        } else {
            let text = if rule == AddedTokens::Normalized { with_spaces(&text) } else { text };
            tokens.push(text, 0.0, TokenType::UserDefined);
        }
    }
    Ok(tokens)
}

//! The files of a tokenizer from the vocabulary of a file.
//!
//! What comes out splits texts as readers of the file do. What a file does not have, such as the
//! normalization of Unicode in `tokenizer.json`, is not in it.

mod bpe;
mod config;
mod pieces;
mod source;
mod word_pieces;

use std::collections::BTreeMap;

use ggmill_core::Metadata;
use ggmill_pipeline::{Error, ErrorKind, Result};
use serde_json::{Value as Json, json};

use self::source::Source;
use crate::vocabulary::tokens::{BYTE_LEVEL, SENTENCEPIECE, TokenType, UNIGRAM, WORD_PIECE};

/// The files of a vocabulary, by name; none where the file has no vocabulary. Fails for one of a
/// kind that is not turned back.
pub(super) fn files(metadata: Metadata<'_>) -> Result<BTreeMap<String, Vec<u8>>> {
    let Some(source) = Source::of(metadata)? else { return Ok(BTreeMap::new()) };
    let mut files = match &*source.model {
        BYTE_LEVEL => bpe::files(&source)?,
        SENTENCEPIECE => pieces::files(&source, false)?,
        UNIGRAM => pieces::files(&source, true)?,
        WORD_PIECE => word_pieces::files(&source),
        other => {
            let message = format!(
                "a vocabulary of kind {:?} cannot be converted to tokenizer files",
                ggmill_core::RawStr::from(other)
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    files.insert("tokenizer_config.json".to_owned(), config::file(&source));
    Ok(files)
}

/// What `tokenizer.json` says of the tokens that a text is searched for.
fn added_tokens(source: &Source<'_>) -> Json {
    let ids = (0..source.tokens.len()).filter(|&id| source.is_added(id));
    ids.map(|id| {
        let mut token = added(source, id);
        token["id"] = id.into();
        token
    })
    .collect()
}

fn added(source: &Source<'_>, id: usize) -> Json {
    json!({
        "content": source.tokens[id], "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": !source.is(id, TokenType::UserDefined),
    })
}

/// What puts special tokens around a text: `None` where nothing does.
fn template(before: Option<(u32, &str)>, after: Option<(u32, &str)>) -> Option<Json> {
    if before.is_none() && after.is_none() {
        return None;
    }
    let token = |(_, text): (u32, &str), type_id: u32| json!({ "SpecialToken": { "id": text, "type_id": type_id } });
    let text = |name: &str, type_id: u32| json!({ "Sequence": { "id": name, "type_id": type_id } });
    let run = |name: &str, type_id: u32, begins: bool| -> Vec<Json> {
        let start = before.filter(|_| begins).map(|before| token(before, type_id));
        let end = after.map(|after| token(after, type_id));
        start.into_iter().chain([text(name, type_id)]).chain(end).collect()
    };
    // Where there is no end, a second text begins as the first does.
    let pair = [run("A", 0, true), run("B", 1, after.is_none())].concat();
    let special: serde_json::Map<String, Json> = before
        .into_iter()
        .chain(after)
        .map(|(id, text)| (text.to_owned(), json!({ "id": text, "ids": [id], "tokens": [text] })))
        .collect();
    Some(json!({
        "type": "TemplateProcessing", "single": run("A", 0, true), "pair": pair,
        "special_tokens": special,
    }))
}

/// A `tokenizer.json`.
fn tokenizer_json(
    source: &Source<'_>,
    [normalizer, pre_tokenizer, post_processor, decoder]: [Json; 4],
    model: &Json,
) -> Vec<u8> {
    let document = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added_tokens(source), "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder,
        "model": model,
    });
    super::pretty(&document)
}

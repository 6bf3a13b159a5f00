//! Vocabularies of SentencePiece: the model as SentencePiece has it, and `tokenizer.json`.

use std::collections::BTreeMap;

use ggmill_pipeline::{Error, ErrorKind, Result};
use serde_json::{Map, Value as Json, json};

use super::source::Source;
use super::{template, tokenizer_json};
use crate::vocabulary::base64;
use crate::vocabulary::tokens::TokenType;

/// The space as pieces have it.
const SPACE: &str = "\u{2581}";
/// The score of a token that is not a piece.
const ADDED_SCORE: f32 = -1000.0;

/// The files of a model that merges pieces, or of a unigram model.
pub(super) fn files(source: &Source<'_>, unigram: bool) -> Result<BTreeMap<String, Vec<u8>>> {
    if source.scores.is_empty() {
        let message = "contains tokens of a SentencePiece model, but no scores";
        return Err(Error::new(ErrorKind::Checkpoint, message).key("tokenizer.ggml.scores"));
    }
    let model = if unigram { unigram_model(source) } else { merging_model(source) };
    let prefix = source.flag("tokenizer.ggml.add_space_prefix").unwrap_or(true);
    let replace = json!({ "type": "Replace", "pattern": { "String": " " }, "content": SPACE });
    let (normalizer, pre_tokenizer, decoder) = if unigram {
        let scheme = if prefix { "always" } else { "never" };
        let space = || json!({ "type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": true });
        (unigram_normalizer(source), space(), space())
    } else {
        let prepend = json!({ "type": "Prepend", "prepend": SPACE });
        let steps: Vec<Json> = prefix.then_some(prepend).into_iter().chain([replace]).collect();
        let strip = json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 });
        let back = [
            json!({ "type": "Replace", "pattern": { "String": SPACE }, "content": " " }),
            json!({ "type": "ByteFallback" }),
            json!({ "type": "Fuse" }),
        ];
        let back: Vec<Json> = back.into_iter().chain(prefix.then_some(strip)).collect();
        (
            json!({ "type": "Sequence", "normalizers": steps }),
            Json::Null,
            json!({ "type": "Sequence", "decoders": back }),
        )
    };
    let adds = |role: &str, usually: bool| {
        source.flag(&format!("tokenizer.ggml.add_{role}_token")).unwrap_or(usually)
    };
    let before = source.special("bos").filter(|_| adds("bos", !unigram));
    let after = source.special("eos").filter(|_| adds("eos", unigram));
    let around = template(before, after).unwrap_or(Json::Null);
    let file = tokenizer_json(source, [normalizer, pre_tokenizer, around, decoder], &model);
    let name = if unigram { "spiece.model" } else { "tokenizer.model" };
    Ok(BTreeMap::from([
        ("tokenizer.json".to_owned(), file),
        (name.to_owned(), proto(source, unigram, prefix)),
    ]))
}

fn unknown<'a>(source: &Source<'a>) -> Option<(usize, &'a str)> {
    let by_type = (0..source.tokens.len()).find(|&id| source.is(id, TokenType::Unknown));
    let id = by_type.or_else(|| usize::try_from(source.special("unk")?.0).ok())?;
    Some((id, source.tokens.get(id)?))
}

/// BPE with the merges that scores mean: of the pairs whose union is a piece, the one of the best
/// score goes first.
fn merging_model(source: &Source<'_>) -> Json {
    let mut vocabulary = Map::new();
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, text) in source.tokens.iter().enumerate().filter(|(id, _)| !source.is_placeholder(*id))
    {
        vocabulary.entry(*text).or_insert(id.into());
        ids.entry(text).or_insert(id);
    }
    let mut merges: Vec<(f32, &str, &str, (usize, usize))> = Vec::new();
    for (id, piece) in source.tokens.iter().enumerate() {
        if !source.is(id, TokenType::Normal) && !source.is(id, TokenType::UserDefined) {
            continue;
        }
        for (place, _) in piece.char_indices().skip(1) {
            let Some((left, right)) = piece.split_at_checked(place) else { continue };
            if let (Some(&left_id), Some(&right_id)) = (ids.get(left), ids.get(right)) {
                merges.push((source.scores[id], left, right, (left_id, right_id)));
            }
        }
    }
    // Readers of the file take the leftmost pair of the best score, whichever its halves are.
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.3.cmp(&b.3)));
    let merges: Vec<Json> = merges.iter().map(|(_, left, right, _)| json!([left, right])).collect();
    json!({
        "type": "BPE", "dropout": null, "unk_token": unknown(source).map(|(_, text)| text),
        "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
        "byte_fallback": true, "ignore_merges": false, "vocab": vocabulary, "merges": merges,
    })
}

fn unigram_model(source: &Source<'_>) -> Json {
    let pieces: Vec<Json> = source
        .tokens
        .iter()
        .zip(&source.scores)
        .map(|(text, score)| json!([text, f64::from(*score)]))
        .collect();
    json!({
        "type": "Unigram", "unk_id": unknown(source).map(|(id, _)| id), "vocab": pieces,
        "byte_fallback": (0..source.tokens.len()).any(|id| source.is(id, TokenType::Byte)),
    })
}

fn unigram_normalizer(source: &Source<'_>) -> Json {
    let map = source.bytes("tokenizer.ggml.precompiled_charsmap").filter(|map| !map.is_empty());
    let mut steps: Vec<Json> = map
        .map(|map| json!({ "type": "Precompiled", "precompiled_charsmap": base64::encoded(&map) }))
        .into_iter()
        .collect();
    if source.flag("tokenizer.ggml.remove_extra_whitespaces").unwrap_or(false) {
        steps.push(json!({ "type": "Strip", "strip_left": true, "strip_right": true }));
        steps.push(json!({
            "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": " ",
        }));
    }
    if steps.is_empty() { Json::Null } else { json!({ "type": "Sequence", "normalizers": steps }) }
}

/// How many of the tokens are pieces of the model. Those behind the last are said to be added by
/// `tokenizer_config.json`.
pub(super) fn count(source: &Source<'_>) -> usize {
    let is_piece = |id: &usize| {
        let is_added = source.is(*id, TokenType::Control) || source.is(*id, TokenType::UserDefined);
        let score = source.scores.get(*id).copied().unwrap_or_default();
        !(source.is_placeholder(*id) || is_added && score <= ADDED_SCORE)
    };
    (0..source.tokens.len()).rev().find(is_piece).map_or(0, |last| last + 1)
}

/// A model as SentencePiece has it (`sentencepiece_model.proto`): the pieces, how they are joined,
/// and what is done to a text before.
fn proto(source: &Source<'_>, unigram: bool, prefix: bool) -> Vec<u8> {
    let count = count(source);
    let mut model = Vec::new();
    for id in 0..count {
        let mut piece = Vec::new();
        field(&mut piece, 1, source.tokens[id].as_bytes());
        piece.push(2 << 3 | 5);
        piece.extend(source.scores[id].to_le_bytes());
        let kind = source.types[id];
        if kind != TokenType::Normal as i32 {
            number(&mut piece, 3, u64::try_from(kind).unwrap_or(1));
        }
        field(&mut model, 1, &piece);
    }
    let mut trainer = Vec::new();
    number(&mut trainer, 3, if unigram { 1 } else { 2 });
    number(&mut trainer, 4, count as u64);
    let has_bytes = (0..count).any(|id| source.is(id, TokenType::Byte));
    number(&mut trainer, 35, u64::from(has_bytes));
    let id = |role: &str| source.special(role).map(|(id, _)| u64::from(id));
    // A negative number is one of 64 bits.
    let none = u64::MAX;
    let unknown = unknown(source).map_or(0, |(id, _)| id as u64);
    for (place, id) in [
        (40, unknown),
        (41, id("bos").unwrap_or(none)),
        (42, id("eos").unwrap_or(none)),
        (43, id("pad").unwrap_or(none)),
    ] {
        number(&mut trainer, place, id);
    }
    field(&mut model, 2, &trainer);
    let mut normalizer = Vec::new();
    field(&mut normalizer, 1, b"identity");
    let map = source.bytes("tokenizer.ggml.precompiled_charsmap").unwrap_or_default();
    field(&mut normalizer, 2, &map);
    number(&mut normalizer, 3, u64::from(prefix));
    let remove = source.flag("tokenizer.ggml.remove_extra_whitespaces").unwrap_or(false);
    number(&mut normalizer, 4, u64::from(remove));
    number(&mut normalizer, 5, 1);
    field(&mut model, 3, &normalizer);
    model
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn field(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

//! Restores tokenizer files from the vocabulary of a GGUF file.
//!
//! The files tokenize texts like programs that read the GGUF file. Information that the GGUF file
//! lacks, such as the Unicode normalization of `tokenizer.json`, is not restored.

use std::collections::BTreeMap;

use ggmill_core::{Metadata, RawStr, Value, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_tokenizer::tokenizer_json::encode_base64;
use serde_json::{Map, Value as Json, json};

use super::write::pretty;
use crate::vocabulary::patterns;
use crate::vocabulary::tokens::{
    BYTE_LEVEL, MAX_TOKENS, SENTENCEPIECE, TokenType, UNIGRAM, WORD_PIECE,
};

/// Returns the files of a vocabulary by name; empty if the GGUF file has no vocabulary. Fails for a
/// kind that cannot be restored.
pub(super) fn files(metadata: Metadata<'_>) -> Result<BTreeMap<String, Vec<u8>>> {
    let Some(source) = Source::of(metadata)? else { return Ok(BTreeMap::new()) };
    let mut files = match &*source.model {
        BYTE_LEVEL => byte_level_files(&source)?,
        SENTENCEPIECE => sentencepiece_files(&source, false)?,
        UNIGRAM => sentencepiece_files(&source, true)?,
        WORD_PIECE => word_piece_files(&source),
        other => {
            let message = format!(
                "a vocabulary of kind {:?} cannot be converted to tokenizer files",
                ggmill_core::RawStr::from(other)
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    files.insert("tokenizer_config.json".to_owned(), tokenizer_config(&source));
    Ok(files)
}

/// Returns `added_tokens` of `tokenizer.json`: the tokens that are matched before a text is split.
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

/// Returns the post-processor that adds special tokens around a text; `None` if there are none.
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
    // Without a final token, a second text begins with the same token as the first.
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

/// Returns the content of `tokenizer.json`.
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
    pretty(&document)
}

/// Maximum number of merges: some tokenizers have two per token.
const MAX_MERGES: usize = 2 * MAX_TOKENS;

/// The vocabulary in the metadata of a GGUF file.
struct Source<'a> {
    metadata: Metadata<'a>,
    model: String,
    pre: String,
    tokens: Vec<&'a str>,
    /// One per token; normal if the file has no types.
    types: Vec<i32>,
    /// One per token, or empty.
    scores: Vec<f32>,
    merges: Vec<&'a str>,
}

fn fault(key: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Checkpoint, message).key(key)
}

impl<'a> Source<'a> {
    /// Reads the vocabulary; `None` if the file has no tokens.
    fn of(metadata: Metadata<'a>) -> Result<Option<Self>> {
        if metadata.get(keys::TOKENIZER_TOKENS).is_none() {
            return Ok(None);
        }
        let tokens = strings(metadata, keys::TOKENIZER_TOKENS, MAX_TOKENS)?.unwrap_or_default();
        let types = numbers(metadata, keys::TOKENIZER_TOKEN_TYPE)?;
        let types: Vec<i32> = types
            .into_iter()
            .flatten()
            .map(|number| i32::try_from(number).unwrap_or(TokenType::Normal as i32))
            .collect();
        let types = of_each(types, tokens.len(), keys::TOKENIZER_TOKEN_TYPE)?;
        let scores = metadata.get(keys::TOKENIZER_SCORES).and_then(|entry| entry.value().ok());
        let scores: Vec<f32> = match scores.as_ref().and_then(Value::as_array) {
            Some(array) if array.len() == tokens.len() as u64 =>
            {
                #[expect(clippy::cast_possible_truncation, reason = "scores are single precision")]
                array.floats().into_iter().flatten().map(|score| score as f32).collect()
            }
            Some(array) => {
                let message = format!("{} scores for {} tokens", array.len(), tokens.len());
                return Err(fault(keys::TOKENIZER_SCORES, message));
            }
            None => Vec::new(),
        };
        let merges = strings(metadata, keys::TOKENIZER_MERGES, MAX_MERGES)?.unwrap_or_default();
        let text = |key: &str| {
            let value = metadata.get(key).and_then(|entry| entry.value().ok()?.as_str());
            value.unwrap_or_default().to_owned()
        };
        let (model, pre) = (text(keys::TOKENIZER_MODEL), text(keys::TOKENIZER_PRE));
        Ok(Some(Self { metadata, model, pre, tokens, types, scores, merges }))
    }

    fn is(&self, id: usize, token_type: TokenType) -> bool {
        self.types.get(id) == Some(&(token_type as i32))
    }

    /// Returns `true` if the ID is unused (`[PAD…]`).
    fn is_placeholder(&self, id: usize) -> bool {
        self.is(id, TokenType::Unused)
            && self.tokens.get(id).is_some_and(|text| *text == format!("[PAD{id}]"))
    }

    /// Returns `true` if the token is matched before a text is split.
    fn is_added(&self, id: usize) -> bool {
        self.is(id, TokenType::Control)
            || self.is(id, TokenType::UserDefined)
            || self.is(id, TokenType::Unknown)
    }

    /// Returns the ID and the text of the special token with this role.
    fn special(&self, role: &str) -> Option<(u32, &'a str)> {
        let (_, key) = keys::SPECIAL_TOKENS.iter().find(|(known, _)| *known == role)?;
        let id = self.metadata.get(key)?.value().ok()?.as_u32()?;
        let text = self.tokens.get(usize::try_from(id).ok()?)?;
        Some((id, text))
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.metadata.get(key)?.value().ok()?.as_bool()
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.metadata.get(key)?.value().ok()?.as_str()
    }

    /// Returns an array of integers as bytes.
    fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let value = self.metadata.get(key)?.value().ok()?;
        let array = value.as_array().filter(|array| array.len() <= MAX_TOKENS as u64)?;
        array.integers()?.map(|number| u8::try_from(number & 0xff).ok()).collect()
    }
}

fn of_each(mut types: Vec<i32>, count: usize, key: &str) -> Result<Vec<i32>> {
    if types.is_empty() {
        types = vec![TokenType::Normal as i32; count];
    }
    if types.len() != count {
        return Err(fault(key, format!("{} types for {count} tokens", types.len())));
    }
    Ok(types)
}

fn strings<'a>(metadata: Metadata<'a>, key: &str, limit: usize) -> Result<Option<Vec<&'a str>>> {
    let Some(entry) = metadata.get(key) else { return Ok(None) };
    let value = entry.value().map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let array = value.as_array().ok_or_else(|| fault(key, "is not a list"))?;
    if array.len() > limit as u64 {
        return Err(fault(key, format!("{} elements, the limit is {limit}", array.len())));
    }
    let strings = array.strings().ok_or_else(|| fault(key, "is not a list of strings"))?;
    let mut texts = Vec::new();
    for (number, text) in strings.enumerate() {
        let text: RawStr<'a> = text.map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let text = text
            .to_str()
            .map_err(|_| fault(key, format!("element {number} is not valid UTF-8")))?;
        texts.push(text);
    }
    Ok(Some(texts))
}

fn numbers<'a>(
    metadata: Metadata<'a>,
    key: &str,
) -> Result<Option<impl Iterator<Item = i128> + use<'a>>> {
    let Some(entry) = metadata.get(key) else { return Ok(None) };
    let value = entry.value().map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let array = value.as_array().ok_or_else(|| fault(key, "is not a list"))?;
    if array.len() > MAX_TOKENS as u64 {
        return Err(fault(key, format!("{} elements, the limit is {MAX_TOKENS}", array.len())));
    }
    Ok(array.integers())
}

fn tokenizer_config(source: &Source<'_>) -> Vec<u8> {
    let mut config = Map::new();
    let mut set = |name: &str, value: Json| {
        config.insert(name.to_owned(), value);
    };
    set("tokenizer_class", "PreTrainedTokenizerFast".into());
    set("clean_up_tokenization_spaces", false.into());
    for role in ["bos", "eos", "unk", "sep", "pad", "cls", "mask"] {
        if let Some((_, text)) = source.special(role) {
            set(&format!("{role}_token"), text.into());
        }
    }
    for role in ["bos", "eos", "sep"] {
        if let Some(flag) = source.flag(&format!("tokenizer.ggml.add_{role}_token")) {
            set(&format!("add_{role}_token"), flag.into());
        }
    }
    if source.model == SENTENCEPIECE
        && let Some(flag) = source.flag("tokenizer.ggml.add_space_prefix")
    {
        set("add_prefix_space", flag.into());
    }
    // Tokens that are pieces of the model are not added tokens.
    let first = match &*source.model {
        SENTENCEPIECE | UNIGRAM => piece_count(source),
        _ => 0,
    };
    let added: Map<String, Json> = (first..source.tokens.len())
        .filter(|&id| source.is_added(id))
        .map(|id| (id.to_string(), added(source, id)))
        .collect();
    set("added_tokens_decoder", added.into());
    if let Some(template) = source.text("tokenizer.chat_template") {
        set("chat_template", json!(template));
    }
    pretty(&Json::Object(config))
}

fn byte_level_files(source: &Source<'_>) -> Result<BTreeMap<String, Vec<u8>>> {
    let patterns = patterns::of_name(&source.pre).ok_or_else(|| {
        let message = format!(
            "the rules of the pre-tokenizer {:?} are unknown, or cannot be expressed in \
             tokenizer.json",
            RawStr::from(&*source.pre)
        );
        Error::new(ErrorKind::PreTokenizer, message)
    })?;
    let mut splits: Vec<Json> = patterns
        .iter()
        .map(|pattern| {
            json!({
                "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated",
                "invert": false,
            })
        })
        .collect();
    splits.push(json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
    }));
    let mut vocabulary = Map::new();
    for (id, text) in source.tokens.iter().enumerate().filter(|(id, _)| !source.is_placeholder(*id))
    {
        vocabulary.entry(*text).or_insert(id.into());
    }
    let merges: Vec<Json> = source.merges.iter().map(|merge| pair(merge)).collect();
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
        "ignore_merges": patterns::ignores_merges(&source.pre), "vocab": vocabulary, "merges": merges,
    });
    let adds = |key: &str, usually: bool| source.flag(key).unwrap_or(usually);
    let before = source
        .special("bos")
        .filter(|_| adds("tokenizer.ggml.add_bos_token", patterns::adds_bos(&source.pre)));
    let after = source.special("eos").filter(|_| adds("tokenizer.ggml.add_eos_token", false));
    let plain = || json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true });
    let around = template(before, after).unwrap_or_else(plain);
    let pre_tokenizer = json!({ "type": "Sequence", "pretokenizers": splits });
    let file = tokenizer_json(source, [Json::Null, pre_tokenizer, around, plain()], &model);
    Ok(BTreeMap::from([("tokenizer.json".to_owned(), file)]))
}

/// Splits a merge at the space between its halves.
fn pair(merge: &str) -> Json {
    // The first character cannot be the separator: a half has at least one character.
    let split = merge.char_indices().skip(1).find(|(_, letter)| *letter == ' ');
    let halves = split.and_then(|(place, _)| merge.split_at_checked(place));
    match halves {
        Some((left, right)) => json!([left, right.strip_prefix(' ').unwrap_or(right)]),
        None => json!([merge, ""]),
    }
}

/// Prefix of tokens that continue a word, in tokenizer files.
const CONTINUING: &str = "##";
/// Prefix of tokens that begin a word, in GGUF files.
const BEGINNING: char = '\u{2581}';

fn word_piece_files(source: &Source<'_>) -> BTreeMap<String, Vec<u8>> {
    let text = |id: usize, text: &str| match text.strip_prefix(BEGINNING) {
        _ if source.is(id, TokenType::Control) || source.is_placeholder(id) => text.to_owned(),
        Some(rest) => rest.to_owned(),
        None => format!("{CONTINUING}{text}"),
    };
    let mut vocabulary = Map::new();
    let mut lines = String::new();
    let end = (0..source.tokens.len()).rev().find(|&id| !source.is_placeholder(id));
    let count = end.map_or(0, |end| end.saturating_add(1));
    for (id, token) in source.tokens.iter().enumerate().take(count) {
        let token = text(id, token);
        lines.push_str(&token);
        lines.push('\n');
        vocabulary.entry(token).or_insert(id.into());
    }
    let unknown = source.special("unk").map_or("[UNK]", |(_, text)| text);
    let model = json!({
        "type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": CONTINUING,
        "max_input_chars_per_word": 100, "vocab": vocabulary,
    });
    let flag = |name: &str| source.flag(&format!("tokenizer.ggml.normalizer.{name}"));
    let lowercase = flag("lowercase").unwrap_or(true);
    let normalizer = json!({
        "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
        "strip_accents": flag("strip_accents"), "lowercase": lowercase,
    });
    let first = source.special("cls").or_else(|| source.special("bos"));
    let last = source.special("sep").or_else(|| source.special("eos"));
    let around = template(first, last).unwrap_or(Json::Null);
    let decoder = json!({ "type": "WordPiece", "prefix": CONTINUING, "cleanup": true });
    let pre_tokenizer = json!({ "type": "BertPreTokenizer" });
    let file = tokenizer_json(source, [normalizer, pre_tokenizer, around, decoder], &model);
    BTreeMap::from([
        ("tokenizer.json".to_owned(), file),
        ("vocab.txt".to_owned(), lines.into_bytes()),
    ])
}

/// The space in pieces.
const SPACE: &str = "\u{2581}";
/// The score of an added token.
const ADDED_SCORE: f32 = -1000.0;

/// Returns the files of a SentencePiece model (BPE or unigram).
fn sentencepiece_files(source: &Source<'_>, unigram: bool) -> Result<BTreeMap<String, Vec<u8>>> {
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

/// Returns a BPE model with the merges that follow from the scores: of the pairs whose
/// concatenation is a piece, the pair with the best score is merged first.
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
    // Programs merge the leftmost pair with the best score.
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
        .map(|map| json!({ "type": "Precompiled", "precompiled_charsmap": encode_base64(&map) }))
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

/// Returns the number of tokens that are pieces of the model. `tokenizer_config.json` lists the
/// tokens after the last piece as added tokens.
fn piece_count(source: &Source<'_>) -> usize {
    let is_piece = |id: &usize| {
        let is_added = source.is(*id, TokenType::Control) || source.is(*id, TokenType::UserDefined);
        let score = source.scores.get(*id).copied().unwrap_or_default();
        !(source.is_placeholder(*id) || is_added && score <= ADDED_SCORE)
    };
    (0..source.tokens.len()).rev().find(is_piece).map_or(0, |last| last + 1)
}

/// Returns the model in SentencePiece's format (`sentencepiece_model.proto`): the pieces, the
/// trainer and the normalizer.
fn proto(source: &Source<'_>, unigram: bool, prefix: bool) -> Vec<u8> {
    let count = piece_count(source);
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
    // −1 as a varint.
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

//! WordPiece: `vocab.txt` and `tokenizer.json`.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::source::Source;
use super::{template, tokenizer_json};
use crate::vocabulary::tokens::TokenType;

/// What a token begins with that continues a word.
const CONTINUING: &str = "##";
/// What a token begins with in a file that begins one.
const BEGINNING: char = '\u{2581}';

pub(super) fn files(source: &Source<'_>) -> BTreeMap<String, Vec<u8>> {
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

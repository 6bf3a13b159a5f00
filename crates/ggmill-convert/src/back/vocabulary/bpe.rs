//! Byte-level BPE: `tokenizer.json`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ggmill_core::RawStr;
use ggmill_pipeline::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::source::Source;
use super::{template, tokenizer_json};
use crate::vocabulary::patterns;

/// What readers do based only on the name of a pre-tokenizer.
#[derive(Debug, Default, Deserialize)]
struct Flags {
    /// A word that is a token is one, whatever its merges are.
    ignore_merges: Vec<String>,
    /// A text begins with the token for that, where the file does not say.
    add_bos: Vec<String>,
}

static FLAGS: LazyLock<Flags> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../data/pretokenizer-flags.json")).unwrap_or_default()
});

pub(super) fn files(source: &Source<'_>) -> Result<BTreeMap<String, Vec<u8>>> {
    let patterns = patterns::of_name(&source.pre).ok_or_else(|| {
        let message = format!(
            "the rules of the pre-tokenizer {:?} are unknown, or cannot be expressed in \
             tokenizer.json",
            RawStr::from(&*source.pre)
        );
        Error::new(ErrorKind::PreTokenizer, message)
    })?;
    let has = |names: &[String]| names.contains(&source.pre);
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
        "ignore_merges": has(&FLAGS.ignore_merges), "vocab": vocabulary, "merges": merges,
    });
    let adds = |key: &str, usually: bool| source.flag(key).unwrap_or(usually);
    let before =
        source.special("bos").filter(|_| adds("tokenizer.ggml.add_bos_token", has(&FLAGS.add_bos)));
    let after = source.special("eos").filter(|_| adds("tokenizer.ggml.add_eos_token", false));
    let plain = || json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true });
    let around = template(before, after).unwrap_or_else(plain);
    let pre_tokenizer = json!({ "type": "Sequence", "pretokenizers": splits });
    let file = tokenizer_json(source, [Json::Null, pre_tokenizer, around, plain()], &model);
    Ok(BTreeMap::from([("tokenizer.json".to_owned(), file)]))
}

/// Both halves of a merge, which a space is between.
fn pair(merge: &str) -> Json {
    // The space is not the first character: a half has one at least.
    let split = merge.char_indices().skip(1).find(|(_, letter)| *letter == ' ');
    let halves = split.and_then(|(place, _)| merge.split_at_checked(place));
    match halves {
        Some((left, right)) => json!([left, right.strip_prefix(' ').unwrap_or(right)]),
        None => json!([merge, ""]),
    }
}

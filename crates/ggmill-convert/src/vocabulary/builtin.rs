//! Vocabularies for checkpoints that have no files of a tokenizer, because their authors took the
//! tokenizer of another model.

use std::collections::HashMap;
use std::sync::LazyLock;

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};
use serde::Deserialize;

use super::ranks::last_merge;
use super::request::Request;
use super::tokens::bounded;

/// The tokens, one per line; one LLaMA token is a carriage return.
const LISTS: [(&str, &str); 2] = [
    ("gpt-neox", include_str!("../../data/vocabularies/gpt-neox.txt")),
    ("llama-spm", include_str!("../../data/vocabularies/llama-spm.txt")),
];

/// The rest, as `xtask/peers/builtin_vocabularies.py` writes it.
static FACTS: LazyLock<HashMap<String, Facts>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/vocabularies.json")).unwrap_or_default()
});

/// What a vocabulary has besides its list.
#[derive(Debug, Deserialize)]
struct Facts {
    model: String,
    pre: String,
    size: usize,
    /// The lengths of tokens of spaces, which follow the list.
    spaces: Vec<usize>,
    /// Types, each with how many tokens in a row have it.
    types: Vec<(i32, usize)>,
    merges: bool,
    /// The first token with a score, where there are scores.
    first_scored: Option<usize>,
    bos_token_id: Option<u32>,
    eos_token_id: Option<u32>,
    unk_token_id: Option<u32>,
    pad_token_id: Option<u32>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
}

/// Sets the keys of the vocabulary that the description names; `false` where it names none.
pub(crate) fn write(request: &Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(name) = &request.spec.builtin else { return Ok(false) };
    let list = LISTS.iter().find(|(known, _)| known == name).map(|(_, list)| *list);
    let (Some(list), Some(facts)) = (list, FACTS.get(name)) else {
        let known: Vec<&str> = LISTS.iter().map(|(name, _)| *name).collect();
        let message =
            format!("there is no vocabulary {name:?}, expected one of {}", known.join(", "));
        return Err(Error::new(ErrorKind::Architecture, message));
    };
    let size = bounded(request.size().unwrap_or(facts.size as u64))?.min(facts.size);
    let listed: Vec<&str> = list.split_terminator('\n').collect();
    let mut tokens: Vec<String> = listed.iter().map(|token| (*token).to_owned()).collect();
    tokens.extend(facts.spaces.iter().map(|&len| " ".repeat(len)));
    tokens.extend((tokens.len()..facts.size).map(|id| format!("[PAD{id}]")));
    tokens.truncate(size);
    metadata.set(keys::TOKENIZER_MODEL, &*facts.model);
    metadata.set(keys::TOKENIZER_PRE, request.pre.unwrap_or(&facts.pre));
    metadata.set(keys::TOKENIZER_TOKENS, &tokens);
    if let Some(first) = facts.first_scored {
        metadata.set(keys::TOKENIZER_SCORES, scores(&tokens, first));
    }
    let types = facts.types.iter().flat_map(|&(kind, count)| vec![kind; count]);
    metadata.set(keys::TOKENIZER_TOKEN_TYPE, types.take(size).collect::<Vec<i32>>());
    if facts.merges {
        metadata.set(keys::TOKENIZER_MERGES, merges(&listed));
    }
    for (role, id) in [
        ("bos", facts.bos_token_id),
        ("eos", facts.eos_token_id),
        ("unk", facts.unk_token_id),
        ("pad", facts.pad_token_id),
    ] {
        let key = keys::SPECIAL_TOKENS.iter().find(|(known, _)| *known == role);
        if let (Some((_, key)), Some(id)) = (key, id) {
            metadata.set(*key, id);
        }
    }
    for (key, flag) in [
        ("tokenizer.ggml.add_bos_token", facts.add_bos_token),
        ("tokenizer.ggml.add_eos_token", facts.add_eos_token),
    ] {
        if let Some(flag) = flag {
            metadata.set(key, flag);
        }
    }
    Ok(true)
}

/// A score for each token: from the first one with a score on by its place, and the least for
/// those of spaces alone.
fn scores(tokens: &[String], first: usize) -> Vec<f32> {
    #[expect(clippy::cast_precision_loss, reason = "less than a million tokens")]
    let score = |(id, token): (usize, &String)| match id.checked_sub(first) {
        None => 0.0,
        Some(_) if token.chars().all(|c| c == '\u{2581}') => -1e9,
        Some(place) => 0.0 - place as f32,
    };
    tokens.iter().enumerate().map(score).collect()
}

/// The merges that make the tokens, in order.
fn merges(tokens: &[&str]) -> Vec<String> {
    let ranks: HashMap<&str, u32> = (0u32..).zip(tokens).map(|(id, token)| (*token, id)).collect();
    let mut merges = Vec::with_capacity(tokens.len());
    for (id, token) in (0u32..).zip(tokens) {
        let ends: Vec<usize> = token.char_indices().skip(1).map(|(start, _)| start).collect();
        let ends: Vec<usize> = ends.into_iter().chain([token.len()]).collect();
        let rank = |from: usize, to: usize| ranks.get(token.get(from..to)?).copied();
        if let Some(place) = last_merge(&rank, ends, id)
            && let Some((left, right)) = token.split_at_checked(place)
        {
            merges.push(format!("{left} {right}"));
        }
    }
    merges
}

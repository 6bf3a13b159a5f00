//! Mistral's tokenizers: `tekken.json` with special tokens followed by byte sequences in rank
//! order, and SentencePiece models with a version in their names.

use std::collections::HashMap;
use std::sync::LazyLock;

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;
use serde::Deserialize;

use ggmill_tokenizer::tokenizer_json::{decode_base64, to_byte_level};

use super::files::{self, fault};
use super::model_proto::{ModelProto, PieceKind};
use super::request::Request;
use super::sentencepiece;
use super::template::builtin_template;
use super::tokens::{BYTE_LEVEL, SENTENCEPIECE, TokenType, Tokens, bounded};

const FILE: &str = "tekken.json";
/// SentencePiece models with their versions, in order of preference.
const MODELS: [(&str, &str); 8] = [
    ("tokenizer.model.v7m1", "v7"),
    ("tokenizer.model.v7", "v7"),
    ("tokenizer.model.v3m1", "v3"),
    ("tokenizer.model.v3", "v3"),
    ("tokenizer.model.v2", "v2"),
    ("tokenizer.model.v11", "v11"),
    ("tokenizer.model.v1", "v1"),
    ("tokenizer.model", "v1"),
];
/// The first 256 sequences are the single bytes.
const SINGLE: usize = 256;
/// Limit of the work to find merges, as the sum of the squared lengths of the sequences.
const MAX_WORK: u64 = 1 << 30;

/// Data that the files do not contain.
#[derive(Debug, Default, Deserialize)]
struct Facts {
    /// The special tokens of files that list none.
    special_tokens: Vec<String>,
    /// The chat templates by version and kind of tokenizer: a template name that programs know, or
    /// `@` and the name of a built-in template.
    templates: HashMap<String, String>,
}

static FACTS: LazyLock<Facts> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/mistral.json")).unwrap_or_default()
});

#[derive(Deserialize)]
struct TekkenJson {
    config: Config,
    vocab: Vec<Sequence>,
    #[serde(default)]
    special_tokens: Option<Vec<Special>>,
}

#[derive(Deserialize)]
struct Config {
    default_vocab_size: u64,
    default_num_special_tokens: u64,
    version: String,
}

#[derive(Deserialize)]
struct Sequence {
    rank: u64,
    token_bytes: String,
}

#[derive(Deserialize)]
struct Special {
    token_str: String,
    rank: u32,
}

/// The IDs of special tokens.
struct Ids {
    bos: u32,
    eos: u32,
    unk: u32,
    pad: u32,
}

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has no `tekken.json`, or also
/// has a `tokenizer.json`.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    if request.files.has("tokenizer.json") && !request.spec.template_file_first {
        return Ok(false);
    }
    let Some(bytes) = files::vocabulary(request.files, FILE)? else { return Ok(false) };
    let file: TekkenJson = files::parse(FILE, &bytes)?;
    drop(bytes);
    let special = special_tokens(&file)?;
    let sequences = sequences(&file, special.len())?;
    let id = |text: &str| {
        let found = special.iter().find(|(known, _)| known == text).map(|(_, id)| *id);
        found.ok_or_else(|| fault(FILE, format!("there is no special token {text}")))
    };
    let ids = Ids { bos: id("<s>")?, eos: id("</s>")?, unk: id("<unk>")?, pad: id("<pad>")? };
    let mut tokens = Tokens::default();
    for (text, _) in &special {
        tokens.push(text.clone(), 0.0, TokenType::Control);
    }
    for sequence in &sequences {
        tokens.push(to_byte_level(sequence), 0.0, TokenType::Normal);
    }
    metadata.set(keys::TOKENIZER_MODEL, BYTE_LEVEL);
    metadata.set(keys::TOKENIZER_PRE, request.pre.unwrap_or("tekken"));
    let merges = merges(&sequences).map_err(|message| fault(FILE, message))?;
    metadata.set(keys::TOKENIZER_MERGES, merges);
    let version = format!("{} tekken", file.config.version);
    write_rest(request, &mut tokens, &ids, &version, metadata)?;
    // Integers, as in the reference; programs accept a zero of either type.
    metadata.set(keys::TOKENIZER_SCORES, vec![0i32; tokens.len()]);
    Ok(true)
}

/// Adds the keys of a vocabulary in a SentencePiece model; returns `false` if there is none.
pub(crate) fn write_model(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let found = MODELS.iter().find(|(name, _)| request.files.has(name));
    let Some((name, version)) = found else { return Ok(false) };
    let Some(bytes) = files::vocabulary(request.files, name)? else { return Ok(false) };
    let model = ModelProto::parse(&bytes).map_err(|message| fault(name, message))?;
    let id = |text: &str, kind| {
        let index = model.pieces.iter().position(|it| it.text == text && it.kind == kind);
        index.and_then(|id| u32::try_from(id).ok())
    };
    let expected = |text: &str, kind| {
        id(text, kind).ok_or_else(|| fault(name, format!("there is no special token {text}")))
    };
    let eos = expected("</s>", PieceKind::Control)?;
    let ids = Ids {
        bos: expected("<s>", PieceKind::Control)?,
        eos,
        unk: expected("<unk>", PieceKind::Unknown)?,
        pad: id("<pad>", PieceKind::Control).unwrap_or(eos),
    };
    let mut tokens = sentencepiece::of_model(request, name, &model, model.pieces.len() as u64)?;
    metadata.set(keys::TOKENIZER_MODEL, SENTENCEPIECE);
    write_rest(request, &mut tokens, &ids, &format!("{version} spm"), metadata)?;
    Ok(true)
}

/// Adds the keys that both kinds have.
fn write_rest(
    request: &mut Request<'_>,
    tokens: &mut Tokens,
    ids: &Ids,
    version: &str,
    metadata: &mut MetadataBuf,
) -> Result<()> {
    metadata.set("tokenizer.ggml.bos_token_id", ids.bos);
    metadata.set("tokenizer.ggml.eos_token_id", ids.eos);
    metadata.set("tokenizer.ggml.unknown_token_id", ids.unk);
    metadata.set("tokenizer.ggml.padding_token_id", ids.pad);
    tokens.write_to(true, request.spec, metadata);
    let architecture = metadata.get(keys::GENERAL_ARCHITECTURE).and_then(|it| it.as_str());
    if let Some(key) = architecture.map(|name| format!("{name}.vocab_size")) {
        metadata.set(key, u32::try_from(tokens.len()).unwrap_or(u32::MAX));
    }
    metadata.set("tokenizer.ggml.add_bos_token", true);
    metadata.set("tokenizer.ggml.add_eos_token", false);
    match FACTS.templates.get(version).map(|name| (name.strip_prefix('@'), name)) {
        Some((Some(name), _)) => {
            metadata.set(keys::TOKENIZER_CHAT_TEMPLATE, builtin_template(name)?);
        }
        Some((None, name)) => metadata.set(keys::TOKENIZER_CHAT_TEMPLATE, name.as_str()),
        None => request.notes.push(format!(
            "no chat template is known for tokenizers of version {version}, so none was written"
        )),
    }
    Ok(())
}

/// Returns the special tokens in order, with the IDs specified in the file.
fn special_tokens(file: &TekkenJson) -> Result<Vec<(String, u32)>> {
    let count = bounded(file.config.default_num_special_tokens)?;
    let mut special: Vec<(String, u32)> = match &file.special_tokens {
        Some(listed) => listed.iter().map(|it| (it.token_str.clone(), it.rank)).collect(),
        None => FACTS.special_tokens.iter().cloned().zip(0..).collect(),
    };
    if special.len() > count {
        let message = format!("lists {} special tokens, expected {count}", special.len());
        return Err(fault(FILE, message));
    }
    for id in special.len()..count {
        special.push((format!("<SPECIAL_{id}>"), u32::try_from(id).unwrap_or(u32::MAX)));
    }
    Ok(special)
}

/// Returns the byte sequences by rank, truncated to the vocabulary size minus the special tokens.
fn sequences(file: &TekkenJson, special: usize) -> Result<Vec<Vec<u8>>> {
    let size = bounded(file.config.default_vocab_size)?;
    let count = size.checked_sub(special).filter(|&count| count <= file.vocab.len());
    let count = count.ok_or_else(|| {
        let message = format!(
            "default_vocab_size is {size}, but there are {special} special tokens and {} others",
            file.vocab.len()
        );
        fault(FILE, message)
    })?;
    let mut sequences = Vec::with_capacity(count);
    let mut work = 0u64;
    for (rank, listed) in file.vocab.iter().take(count).enumerate() {
        let at = |message: &str| fault(FILE, format!("vocab[{rank}]: {message}"));
        let bytes = decode_base64(&listed.token_bytes).map_err(|message| at(&message))?;
        let len = bytes.len() as u64;
        work = work.saturating_add(len.saturating_mul(len));
        if listed.rank != rank as u64 {
            return Err(at(&format!("rank {}, expected {rank}", listed.rank)));
        }
        if rank < SINGLE && bytes.iter().map(|&byte| usize::from(byte)).ne([rank]) {
            return Err(at(&format!("expected the byte {rank}")));
        }
        if bytes.is_empty() || work > MAX_WORK {
            return Err(at("the sequence is empty, or the sequences are too long in total"));
        }
        sequences.push(bytes);
    }
    Ok(sequences)
}

/// Returns every merge of two sequences, ordered by the rank of the result and then by those of its
/// parts.
fn merges(sequences: &[Vec<u8>]) -> Result<Vec<String>, String> {
    let ranks: HashMap<&[u8], u32> =
        (0u32..).zip(sequences).map(|(rank, bytes)| (&**bytes, rank)).collect();
    if ranks.len() < sequences.len() {
        return Err("two sequences are the same".to_owned());
    }
    let mut merges = Vec::with_capacity(sequences.len());
    for (rank, bytes) in sequences.iter().enumerate().skip(SINGLE) {
        let mut parts = Vec::new();
        for place in 1..bytes.len() {
            let Some((left, right)) = bytes.split_at_checked(place) else { continue };
            if let (Some(&of_left), Some(&of_right)) = (ranks.get(left), ranks.get(right)) {
                parts.push((of_left, of_right, place));
            }
        }
        if parts.is_empty() {
            return Err(format!("vocab[{rank}]: it is not the result of merging two sequences"));
        }
        parts.sort_unstable();
        for (_, _, place) in parts {
            let (left, right) = bytes.split_at_checked(place).unwrap_or_default();
            merges.push(format!("{} {}", to_byte_level(left), to_byte_level(right)));
        }
    }
    Ok(merges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::files::source_of;

    #[test]
    fn every_model_file_is_a_source() {
        for (name, _) in MODELS {
            assert_eq!(source_of(name), Some(name));
        }
        assert_eq!(source_of(FILE), Some(FILE));
    }
}

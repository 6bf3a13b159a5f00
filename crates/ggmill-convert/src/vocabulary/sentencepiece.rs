//! Vocabularies of SentencePiece models, and the tokens that other files add to them.

use ggmill_arch::AddedTokens;
use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;
use serde_json::Value;

use super::files::{self, fault};
use super::model_proto::{Algorithm, ModelProto, Piece, PieceKind};
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::{SENTENCEPIECE, TokenType, Tokens, UNIGRAM, looks_special, with_spaces};

/// The file of the pieces.
const MODEL: &str = "tokenizer.model";

/// Adds the keys of the vocabulary; returns `false` if the checkpoint has no such model.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let Some(bytes) = files::vocabulary(request.files, MODEL)? else { return Ok(false) };
    let model = ModelProto::parse(&bytes).map_err(|message| fault(MODEL, message))?;
    let pieces = model.pieces.len() as u64;
    let size = request
        .spec
        .size
        .or_else(|| request.number("vocab_size_per_layer_input"))
        .or_else(|| request.number("vocab_size"))
        .filter(|&size| size > 0)
        .unwrap_or(pieces);
    if request.spec.pieces.appended && size > pieces {
        return Err(fault(MODEL, format!("has {pieces} pieces, but the model has {size} tokens")));
    }
    let mut tokens = of_model(request, MODEL, &model, size)?;
    add(request, &mut tokens)?;
    metadata.set(keys::TOKENIZER_MODEL, SENTENCEPIECE);
    metadata.set(keys::TOKENIZER_PRE, request.spec.pre.as_deref().unwrap_or("default"));
    tokens.write_to(true, request.spec, metadata);
    if request.spec.pieces.dummy_prefix {
        metadata.set("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
    }
    let options = SpecialOptions { limit: Some(tokens.len()), ..SpecialOptions::default() };
    special::write(request, &tokens, options, metadata)?;
    Ok(true)
}

/// The file of added tokens by text.
const ADDED: &str = "added_tokens.json";
const CONFIG: &str = "tokenizer_config.json";
const TOKENIZER: &str = "tokenizer.json";

/// The score of an added token.
const ADDED_SCORE: f32 = -1000.0;
/// The score of unused IDs.
const UNUSED_SCORE: f32 = -10000.0;

/// Returns the pieces, and placeholders up to `size`. `name` is the name of the file.
pub(crate) fn of_model(
    request: &mut Request<'_>,
    name: &str,
    model: &ModelProto,
    size: u64,
) -> Result<Tokens> {
    let mut tokens = Tokens::placeholders(size, UNUSED_SCORE)?;
    for (id, piece) in model.pieces.iter().enumerate() {
        let (text, token_type) = token(piece, request);
        if !tokens.set(id, text, piece.score, token_type) {
            let left_out = model.pieces.len().saturating_sub(id);
            request.notes.push(format!(
                "{name} has {} pieces, but the model has {size} tokens: {left_out} pieces were \
                 omitted",
                model.pieces.len(),
            ));
            break;
        }
    }
    Ok(tokens)
}

fn token(piece: &Piece, request: &Request<'_>) -> (String, TokenType) {
    let rules = &request.spec.pieces;
    let token_type = match piece.kind {
        // SentencePiece never splits such a piece. U+2581 stands for a space, which programs do not
        // replace before they search for user-defined tokens.
        PieceKind::UserDefined if !piece.text.contains('\u{2581}') => TokenType::UserDefined,
        PieceKind::Normal | PieceKind::UserDefined => TokenType::Normal,
        PieceKind::Unknown => TokenType::Unknown,
        PieceKind::Control => TokenType::Control,
        PieceKind::Unused => TokenType::Unused,
        PieceKind::Byte => TokenType::Byte,
    };
    let unused = rules.unused_prefix.as_ref().is_some_and(|begin| piece.text.starts_with(begin));
    let text = rules.nul.as_ref().filter(|_| piece.text == "\0").unwrap_or(&piece.text);
    (text.clone(), if unused { TokenType::Unused } else { token_type })
}

/// Adds the added tokens from the files that the description names.
fn add(request: &mut Request<'_>, tokens: &mut Tokens) -> Result<()> {
    for file in &request.spec.pieces.added {
        match &**file {
            ADDED if request.spec.pieces.appended => append(request, tokens)?,
            ADDED => add_by_text(request, tokens)?,
            CONFIG => add_listed(CONFIG, of_config(request)?, request, tokens),
            _ => add_listed(TOKENIZER, of_tokenizer(request)?, request, tokens),
        }
    }
    Ok(())
}

/// Adds the tokens of `added_tokens.json` at their IDs.
fn add_by_text(request: &mut Request<'_>, tokens: &mut Tokens) -> Result<()> {
    let mut added = by_text(request)?;
    added.sort_unstable();
    refuse_duplicates(ADDED, added.iter().map(|&(id, _)| id))?;
    for (id, token) in added {
        let what = format!("{ADDED}: {token:?}");
        if !tokens.set(id, token, ADDED_SCORE, TokenType::UserDefined) {
            request.notes.push(format!("{what}: token ID {id} is out of range, and was omitted"));
        }
    }
    Ok(())
}

/// Appends the tokens of `added_tokens.json`.
fn append(request: &Request<'_>, tokens: &mut Tokens) -> Result<()> {
    for (_, token) in by_text(request)? {
        tokens.push(token, ADDED_SCORE, TokenType::UserDefined);
    }
    Ok(())
}

/// Reads `added_tokens.json`: IDs and texts.
fn by_text(request: &Request<'_>) -> Result<Vec<(usize, String)>> {
    let Some(added) = files::json(request.files, ADDED)? else { return Ok(Vec::new()) };
    let Value::Object(added) = added else { return Err(fault(ADDED, "expected an object")) };
    let mut found = Vec::with_capacity(added.len());
    for (text, id) in added {
        let id = id.as_u64().and_then(|id| usize::try_from(id).ok());
        let id = id.ok_or_else(|| fault(ADDED, format!("{text:?}: expected a token ID")))?;
        found.push((id, text));
    }
    Ok(found)
}

/// An added token with its ID.
struct Listed {
    id: usize,
    content: String,
    special: bool,
}

fn add_listed(file: &str, listed: Vec<Listed>, request: &mut Request<'_>, tokens: &mut Tokens) {
    let rules = &request.spec.pieces;
    let unknown = request.tokenizer_config.as_ref().and_then(|config| config.get("unk_token"));
    let unknown = unknown.and_then(Value::as_str).map(str::to_owned);
    for token in listed {
        let normalized = request.spec.added_tokens == AddedTokens::Normalized;
        let special = token.special || (normalized && looks_special(&token.content));
        let is_unknown = rules.special_score.is_some() && unknown.as_ref() == Some(&token.content);
        let token_type = match (special, is_unknown) {
            (true, true) => TokenType::Unknown,
            (true, false) => TokenType::Control,
            (false, _) => TokenType::UserDefined,
        };
        let score = rules.special_score.filter(|_| special).or(rules.added_score);
        let text = if special || !normalized { token.content } else { with_spaces(&token.content) };
        let id = token.id;
        if !tokens.set(id, text, score.unwrap_or(ADDED_SCORE), token_type) {
            request
                .notes
                .push(format!("{file}: added token ID {id} is out of range, and was omitted"));
        }
    }
}

/// Returns the tokens of `added_tokens_decoder` in `tokenizer_config.json`.
fn of_config(request: &Request<'_>) -> Result<Vec<Listed>> {
    let Some(config) = &request.tokenizer_config else { return Ok(Vec::new()) };
    let Some(decoder) = config.get("added_tokens_decoder") else { return Ok(Vec::new()) };
    let wrong = || fault(CONFIG, "added_tokens_decoder: expected token IDs with content");
    let mut found = Vec::new();
    for (id, token) in decoder.as_object().ok_or_else(wrong)? {
        let id = id.trim().parse().map_err(|_| wrong())?;
        let content = token.get("content").and_then(Value::as_str).ok_or_else(wrong)?.to_owned();
        let special = token.get("special").is_some_and(super::python::truthy);
        found.push(Listed { id, content, special });
    }
    found.sort_unstable_by_key(|listed| listed.id);
    refuse_duplicates(CONFIG, found.iter().map(|listed| listed.id))?;
    Ok(found)
}

/// Returns the tokens of `added_tokens` in `tokenizer.json`.
fn of_tokenizer(request: &mut Request<'_>) -> Result<Vec<Listed>> {
    let Some(file) = request.tokenizer()? else { return Ok(Vec::new()) };
    let listed = file.added_tokens.iter().map(|listed| Listed {
        id: usize::try_from(listed.id).unwrap_or(usize::MAX),
        content: listed.token.content.clone(),
        special: listed.token.special,
    });
    Ok(listed.collect())
}

/// Fails if two added tokens have the same ID; which one is used is not defined.
fn refuse_duplicates(file: &str, sorted: impl Iterator<Item = usize> + Clone) -> Result<()> {
    match sorted.clone().zip(sorted.skip(1)).find(|(one, other)| one == other) {
        Some((id, _)) => Err(fault(file, format!("two added tokens have ID {id}"))),
        None => Ok(()),
    }
}

/// The normalizer of a unigram model.
#[derive(Debug, Default)]
pub(crate) struct Normalizer {
    /// Add a space before the text.
    pub(crate) add_prefix: bool,
    /// Remove leading, trailing and repeated spaces.
    pub(crate) remove_spaces: bool,
    /// SentencePiece's precompiled character map, or empty.
    pub(crate) charsmap: Vec<u8>,
}

impl Normalizer {
    /// Returns the normalizer of a SentencePiece model.
    pub(crate) fn of_model(model: ModelProto) -> Self {
        Self {
            add_prefix: model.add_dummy_prefix,
            remove_spaces: model.remove_extra_whitespaces,
            charsmap: model.charsmap,
        }
    }
}

/// Adds the keys of a unigram vocabulary; returns `false` if the checkpoint has no SentencePiece
/// model, or a BPE model.
pub(crate) fn write_unigram(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let name = ["tokenizer.model", "spiece.model"].into_iter().find(|name| request.files.has(name));
    let Some(name) = name else { return Ok(false) };
    let Some(bytes) = files::vocabulary(request.files, name)? else { return Ok(false) };
    let model = ModelProto::parse(&bytes).map_err(|message| fault(name, message))?;
    match model.algorithm {
        Algorithm::Unigram => {}
        Algorithm::Bpe => return Ok(false),
        Algorithm::Word | Algorithm::Char => {
            return Err(fault(name, "is neither a unigram model nor a BPE model"));
        }
    }
    let size = request.size().unwrap_or(model.pieces.len() as u64);
    let mut tokens = of_model(request, name, &model, size)?;
    add_by_text(request, &mut tokens)?;
    write_tokens(request, &mut tokens, &Normalizer::of_model(model), false, metadata)?;
    Ok(true)
}

/// Adds the keys of a unigram vocabulary, optionally with the number of token types.
pub(crate) fn write_tokens(
    request: &mut Request<'_>,
    tokens: &mut Tokens,
    normalizer: &Normalizer,
    type_count: bool,
    metadata: &mut MetadataBuf,
) -> Result<()> {
    metadata.set(keys::TOKENIZER_MODEL, UNIGRAM);
    metadata.set(keys::TOKENIZER_PRE, "default");
    tokens.write_to(true, request.spec, metadata);
    metadata.set("tokenizer.ggml.add_space_prefix", normalizer.add_prefix);
    if type_count {
        let count = request.number("type_vocab_size").unwrap_or(1);
        metadata.set("tokenizer.ggml.token_type_count", u32::try_from(count).unwrap_or(u32::MAX));
    }
    metadata.set("tokenizer.ggml.remove_extra_whitespaces", normalizer.remove_spaces);
    if !normalizer.charsmap.is_empty() {
        metadata.set("tokenizer.ggml.precompiled_charsmap", &normalizer.charsmap);
    }
    let options = SpecialOptions { limit: Some(tokens.len()), ..SpecialOptions::default() };
    special::write(request, tokens, options, metadata)
}

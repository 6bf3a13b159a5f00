//! A unigram vocabulary: a SentencePiece model that splits texts by the scores of its pieces.

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;

use super::files::{self, fault};
use super::model_proto::{Algorithm, ModelProto};
use super::pieces;
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::{Tokens, UNIGRAM};

/// What a unigram model does to a text before it splits it.
#[derive(Debug, Default)]
pub(crate) struct Normalizer {
    /// Whether a space is put before the text.
    pub(crate) add_prefix: bool,
    /// Whether spaces at its ends and repeated ones are removed.
    pub(crate) remove_spaces: bool,
    /// SentencePiece's compiled map of characters; empty for none.
    pub(crate) charsmap: Vec<u8>,
}

impl Normalizer {
    /// The one of a SentencePiece model.
    pub(crate) fn of_model(model: ModelProto) -> Self {
        Self {
            add_prefix: model.add_dummy_prefix,
            remove_spaces: model.remove_extra_whitespaces,
            charsmap: model.charsmap,
        }
    }
}

/// Sets the keys of the vocabulary; `false` where the checkpoint has no SentencePiece model, or
/// one that merges pieces.
pub(crate) fn write(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
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
    let mut tokens = pieces::of_model(request, name, &model, size)?;
    pieces::add_by_text(request, &mut tokens)?;
    write_tokens(request, &mut tokens, &Normalizer::of_model(model), false, metadata)?;
    Ok(true)
}

/// Sets the keys of a unigram vocabulary, with the number of token types or without.
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

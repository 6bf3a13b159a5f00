//! A SentencePiece vocabulary: `tokenizer.model` and what is added to it.

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;

use super::files::{self, fault};
use super::model_proto::ModelProto;
use super::pieces;
use super::request::Request;
use super::special::{self, SpecialOptions};
use super::tokens::SENTENCEPIECE;

/// The pieces.
const MODEL: &str = "tokenizer.model";

/// Sets the keys of the vocabulary; `false` where the checkpoint has no such model.
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
    let mut tokens = pieces::of_model(request, MODEL, &model, size)?;
    pieces::add(request, &mut tokens)?;
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

//! The vocabulary of a checkpoint, as metadata.
//!
//! What is written, and in which order, is what the reference converter writes (llama.cpp,
//! `conversion/base.py`, and `vocab.py` of `gguf` 0.19.0).

mod added;
mod bpe;
mod bytes;
mod class;
mod fast;
mod files;
mod llama_hf;
mod merger;
mod merges;
mod merges_txt;
mod model_proto;
mod normalize;
mod patterns;
mod post_processor;
mod pretokenizer;
mod python;
mod request;
mod sentencepiece;
mod special;
mod split;
mod template;
mod tokenizer_json;
mod tokens;

use ggmill_arch::{VocabularyKind, VocabularySpec};
use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Pretrained, Result, SideFiles};
use serde_json::Value;

use self::request::Request;
pub(crate) use files::document;

/// The files a vocabulary can be made from.
const SOURCES: [&str; 10] = [
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.jsonl",
    "tiktoken.model",
    "rwkv_vocab_v20230424.txt",
];

/// Whether files of a tokenizer are among these.
///
/// ```
/// use std::collections::BTreeMap;
/// let mut files = BTreeMap::new();
/// assert!(!ggmill_convert::has_tokenizer(&files));
/// files.insert("tokenizer.json".to_owned(), b"{}".to_vec());
/// assert!(ggmill_convert::has_tokenizer(&files));
/// ```
pub fn has_tokenizer(files: &dyn SideFiles) -> bool {
    sources(files).next().is_some()
}

fn sources(files: &dyn SideFiles) -> impl Iterator<Item = &'static str> {
    SOURCES.into_iter().filter(|name| files.has(name))
}

/// Sets the keys of a checkpoint's vocabulary, after those that are set. Gives remarks on the
/// result. Fails when no kind that the architecture has can be made from the checkpoint's files,
/// and where they contradict themselves.
pub(crate) fn write(
    checkpoint: &dyn Pretrained,
    spec: Option<&VocabularySpec>,
    pre: Option<&str>,
    metadata: &mut MetadataBuf,
) -> Result<Vec<String>> {
    let spec = spec.ok_or_else(|| {
        Error::new(
            ErrorKind::Architecture,
            "the description of the architecture has no [vocabulary], and the checkpoint has a \
             tokenizer",
        )
    })?;
    let mut request = Request::new(checkpoint.side_files(), checkpoint.config(), pre)?;
    for &kind in &spec.kinds {
        if spec.space_prefix
            && kind != VocabularyKind::Tekken
            && let Some(config) = &request.tokenizer_config
            && let Some(&Value::Bool(flag)) = config.get("add_prefix_space")
        {
            metadata.set("tokenizer.ggml.add_space_prefix", flag);
        }
        if write_kind(kind, &mut request, metadata)? {
            spec.write_keys(metadata);
            return Ok(request.notes);
        }
    }
    let names = |names: Vec<&str>| names.join(", ");
    let message = format!(
        "the checkpoint's tokenizer ({}) is none of the kinds the architecture has: {}",
        names(sources(request.files).collect()),
        names(spec.kinds.iter().map(|kind| kind.name()).collect()),
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Sets the keys of a vocabulary of this kind; `false` where the checkpoint has none.
fn write_kind(
    kind: VocabularyKind,
    request: &mut Request<'_>,
    metadata: &mut MetadataBuf,
) -> Result<bool> {
    match kind {
        VocabularyKind::SentencePiece => sentencepiece::write(request, metadata),
        VocabularyKind::LlamaHf => llama_hf::write(request, metadata),
        VocabularyKind::Bpe => bpe::write(request, metadata),
        VocabularyKind::None => {
            metadata.set(keys::TOKENIZER_MODEL, "none");
            Ok(true)
        }
        _ => Ok(false),
    }
}

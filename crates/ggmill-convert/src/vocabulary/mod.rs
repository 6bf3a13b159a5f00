//! The vocabulary of a checkpoint, as metadata.
//!
//! What is written, and in which order, is what the reference converter writes (llama.cpp,
//! `conversion/base.py`, and `vocab.py` of `gguf` 0.19.0).

pub(crate) mod base64;
mod bpe;
mod builtin;
mod byte_pairs;
mod class;
mod fairseq_unigram;
mod fast;
mod files;
mod jsonl;
mod llama2c;
mod llama_hf;
mod merges_txt;
mod model_proto;
pub(crate) mod patterns;
mod pieces;
mod post_processor;
mod pretokenizer;
mod python;
mod ranks;
mod request;
mod sentencepiece;
mod sources;
mod special;
mod standalone;
mod tekken;
mod template;
mod tokenizer_files;
pub(crate) mod tokens;
mod unigram;
mod wordpiece;
mod world;

use ggmill_arch::{SpacePrefix, VocabularyKind, VocabularySpec};
use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Pretrained, Result, SideFiles};
use serde_json::Value;

use self::request::Request;
use self::sources::sources;
pub(crate) use files::{document, json};
pub use sources::has_tokenizer;
pub use standalone::convert_tokenizer;
pub(crate) use template::builtin_template;
pub use tokenizer_files::TokenizerFiles;

/// Whether a vocabulary is written for a checkpoint: it has a tokenizer, the file of ranks that the
/// description names, or the description names a vocabulary for those that have none.
pub(crate) fn is_written(files: &dyn SideFiles, spec: Option<&VocabularySpec>) -> bool {
    let described = |spec: &VocabularySpec| {
        spec.builtin.is_some()
            || spec.ranks.as_ref().is_some_and(|ranks| files.has(&ranks.file))
            || spec.kinds.contains(&VocabularyKind::Llama2c) && files.has(llama2c::FILE)
    };
    has_tokenizer(files) || spec.is_some_and(described)
}

/// A fault of the files of a vocabulary as one of the vocabulary: the weights could be converted
/// without it.
pub(crate) fn fault_of(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Checkpoint | ErrorKind::Unsupported | ErrorKind::Architecture => {
            error.of_kind(ErrorKind::Vocabulary)
        }
        _ => error,
    }
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
            "the checkpoint has a tokenizer, but the description of the architecture has no \
             [vocabulary] section",
        )
    })?;
    write_kinds(checkpoint.side_files(), checkpoint.config(), spec, pre, metadata)
}

/// Sets the keys of the first kind that can be made from the files.
fn write_kinds(
    files: &dyn SideFiles,
    config: &Value,
    spec: &VocabularySpec,
    pre: Option<&str>,
    metadata: &mut MetadataBuf,
) -> Result<Vec<String>> {
    let mut request = Request::new(files, config, spec, pre)?;
    for &kind in &spec.kinds {
        if !is_possible(kind, &request) {
            continue;
        }
        // What is set before a kind that the checkpoint turns out not to have is forgotten.
        let mut made = metadata.clone();
        let space_first =
            !matches!(kind, VocabularyKind::Tekken | VocabularyKind::MistralSentencePiece);
        if space_first {
            request.write_space_prefix(SpacePrefix::First, &mut made);
        }
        spec.write_keys_before(kind, &mut made);
        if write_kind(kind, &mut request, &mut made)? {
            request.write_space_prefix(SpacePrefix::Last, &mut made);
            template::write_preferred(&mut request, &mut made)?;
            spec.write_keys(kind, &mut made);
            *metadata = made;
            return Ok(request.notes);
        }
    }
    if let Some(defect) = request.defect {
        return Err(files::fault("tokenizer.json", defect));
    }
    let names = |names: Vec<&str>| names.join(", ");
    let mut message = format!(
        "the checkpoint's tokenizer ({}) is not of a kind that the architecture uses: {}",
        names(sources(request.files).collect()),
        names(spec.kinds.iter().map(|kind| kind.name()).collect()),
    );
    if let Some(reason) = request.passed_over {
        message = format!("{message}; {reason}");
    }
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Whether the description lets a checkpoint like this have the kind.
fn is_possible(kind: VocabularyKind, request: &Request<'_>) -> bool {
    request.spec.of_kind(kind).is_none_or(|of_kind| {
        let classes = &of_kind.tokenizer_classes;
        let named = request.tokenizer_class();
        of_kind.possible
            && (classes.is_empty() || classes.iter().any(|class| Some(&**class) == named))
    })
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
        VocabularyKind::CharacterBpe => llama_hf::write_with_merges(request, metadata),
        VocabularyKind::Unscored => llama_hf::write_unscored(request, metadata),
        VocabularyKind::Bpe => bpe::write(request, metadata),
        VocabularyKind::Whitespace => bpe::write_whitespace(request, metadata),
        VocabularyKind::WordPiece => wordpiece::write(request, metadata),
        VocabularyKind::Unigram => unigram::write(request, metadata),
        VocabularyKind::FairseqUnigram => fairseq_unigram::write(request, metadata),
        VocabularyKind::Ranks => ranks::write(request, metadata),
        VocabularyKind::Tekken => tekken::write(request, metadata),
        VocabularyKind::MistralSentencePiece => tekken::write_model(request, metadata),
        VocabularyKind::Builtin => builtin::write(request, metadata),
        VocabularyKind::World => world::write(request, metadata),
        VocabularyKind::Jsonl => jsonl::write(request, metadata),
        VocabularyKind::Llama2c => llama2c::write(request, metadata),
        VocabularyKind::None => {
            metadata.set(keys::TOKENIZER_MODEL, "none");
            Ok(true)
        }
        // That of a target is converted by the target's own description.
        _ => Ok(false),
    }
}

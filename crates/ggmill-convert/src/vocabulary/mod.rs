//! Converts the vocabulary of a checkpoint to metadata.
//!
//! The keys and their order are those of the reference converter (llama.cpp, `conversion/base.py`,
//! and `vocab.py` of `gguf` 0.19.0).

mod bpe;
mod builtin;
mod byte_pairs;
pub(crate) mod class;
mod fairseq_unigram;
mod fast;
mod files;
mod library;
mod llama_hf;
mod model_proto;
pub(crate) mod patterns;
mod post_processor;
mod pretokenizer;
mod python;
mod ranks;
mod request;
mod sentencepiece;
mod special;
mod tekken;
mod template;
mod token_lists;
pub(crate) mod tokens;
mod wordpiece;

pub use files::{TokenizerFiles, has_tokenizer};
pub(crate) use files::{document, json, parse, vocabulary};
use ggmill_arch::{RankRules, SpacePrefix, VocabularyKind, VocabularySpec};
use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Pretrained, Result, SideFiles};
pub use library::LibraryTokenizer;
use serde_json::{Value, json};
pub(crate) use template::builtin_template;

use self::files::sources;
use self::request::Request;

/// Returns `true` if a vocabulary is written for a checkpoint: it has a tokenizer, or the file of
/// ranks that the description names, or the description names a built-in vocabulary.
pub(crate) fn is_written(files: &dyn SideFiles, spec: Option<&VocabularySpec>) -> bool {
    let described = |spec: &VocabularySpec| {
        spec.builtin.is_some()
            || spec.ranks.as_ref().is_some_and(|ranks| files.has(&ranks.file))
            || spec.kinds.contains(&VocabularyKind::Llama2c) && files.has(token_lists::LLAMA2C_FILE)
    };
    has_tokenizer(files) || spec.is_some_and(described)
}

/// Changes an error about tokenizer files to [`ErrorKind::Vocabulary`]: the weights can be
/// converted without the vocabulary.
pub(crate) fn as_vocabulary_error(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Checkpoint | ErrorKind::Unsupported | ErrorKind::Architecture => {
            error.with_kind(ErrorKind::Vocabulary)
        }
        _ => error,
    }
}

/// Adds the keys of a checkpoint's vocabulary; returns notes. Fails if no vocabulary kind of the
/// architecture can be created from the checkpoint's files, or if the files contradict each other. If `verifies`, the tokens of
/// 500 texts are compared with those of `tokenizer.json`.
pub(crate) fn write(
    checkpoint: &dyn Pretrained,
    spec: Option<&VocabularySpec>,
    pre: Option<&str>,
    verifies: bool,
    metadata: &mut MetadataBuf,
) -> Result<Vec<String>> {
    let spec = spec.ok_or_else(|| {
        Error::new(
            ErrorKind::Architecture,
            "the checkpoint has a tokenizer, but the description of the architecture has no \
             [vocabulary] section",
        )
    })?;
    let mut request = Request::new(checkpoint.side_files(), checkpoint.config(), spec, pre)?;
    request.verifies = verifies;
    write_kinds(request, metadata)
}

/// Adds the keys of the first kind that can be created from the files: of the kinds in the
/// description, or else of any kind of `tokenizer.json`.
fn write_kinds(mut request: Request<'_>, metadata: &mut MetadataBuf) -> Result<Vec<String>> {
    let mut refused = None;
    for &kind in &request.spec.kinds {
        if !is_possible(kind, &request) {
            continue;
        }
        match try_kind(Source::Described(kind), &mut request, metadata) {
            Ok(true) => return Ok(request.notes),
            Ok(false) => {}
            // A character-level model has no pre-tokenizer.
            Err(error) if error.kind() == ErrorKind::PreTokenizer => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    for source in [Source::AnyPieces, Source::AnyUnigram, Source::AnyWords, Source::AnyBytes] {
        // An error about the file was found by the description's kinds, too.
        if refused.is_some() && source != Source::AnyPieces || request.defect.is_some() {
            break;
        }
        if try_kind(source, &mut request, metadata)? {
            return Ok(request.notes);
        }
    }
    if let Some(error) = refused {
        return Err(error);
    }
    if let Some(defect) = request.defect {
        return Err(files::fault("tokenizer.json", defect));
    }
    let names = |names: Vec<&str>| names.join(", ");
    let mut message = format!(
        "the checkpoint's tokenizer ({}) is not of a kind that the architecture uses: {}",
        names(sources(request.files).collect()),
        names(request.spec.kinds.iter().map(|kind| kind.name()).collect()),
    );
    if let Some(reason) = request.passed_over {
        message = format!("{message}; {reason}");
    }
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// The way in which a vocabulary is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// As the description says.
    Described(VocabularyKind),
    /// From any character-level BPE model in `tokenizer.json`.
    AnyPieces,
    /// From any unigram model in `tokenizer.json`.
    AnyUnigram,
    /// From any `WordPiece` model in `tokenizer.json`.
    AnyWords,
    /// From any byte-level BPE model in `tokenizer.json`.
    AnyBytes,
}

impl Source {
    /// Returns the kind of vocabulary that it creates.
    fn kind(self) -> VocabularyKind {
        match self {
            Self::Described(kind) => kind,
            Self::AnyPieces => VocabularyKind::LlamaHf,
            Self::AnyUnigram => VocabularyKind::Unigram,
            Self::AnyWords => VocabularyKind::WordPiece,
            Self::AnyBytes => VocabularyKind::Bpe,
        }
    }

    /// Returns `true` if the library's tokenizer is that of `tokenizer.json`.
    fn is_of_library(self) -> bool {
        matches!(
            self.kind(),
            VocabularyKind::SentencePiece
                | VocabularyKind::LlamaHf
                | VocabularyKind::CharacterBpe
                | VocabularyKind::Bpe
                | VocabularyKind::Whitespace
                | VocabularyKind::WordPiece
                | VocabularyKind::Unigram
                | VocabularyKind::FairseqUnigram
        )
    }
}

/// Adds the keys of a vocabulary that is created in this way; returns `false` if the files have none.
fn try_kind(source: Source, request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<bool> {
    let kind = source.kind();
    // Copies, because keys are set and notes are made before it is known whether the checkpoint has
    // this kind.
    let mut made = metadata.clone();
    let notes = request.notes.len();
    if !matches!(kind, VocabularyKind::Tekken | VocabularyKind::MistralSentencePiece) {
        request.write_space_prefix(SpacePrefix::First, &mut made);
    }
    request.spec.write_keys_before(kind, &mut made);
    let written = match source {
        Source::Described(kind) => write_kind(kind, request, &mut made),
        Source::AnyPieces => llama_hf::write_any(request, &mut made),
        Source::AnyUnigram => fairseq_unigram::write_any(request, &mut made),
        Source::AnyWords => wordpiece::write(request, &mut made),
        Source::AnyBytes => bpe::write(request, &mut made),
    };
    if !matches!(written, Ok(true)) {
        request.notes.truncate(notes);
        return written;
    }
    request.write_space_prefix(SpacePrefix::Last, &mut made);
    template::write_preferred(request, &mut made)?;
    request.spec.write_keys(kind, &mut made);
    if source.is_of_library() {
        follow_library(request, &mut made)?;
    }
    *metadata = made;
    Ok(true)
}

/// Sets the keys that the tokenizer of `tokenizer.json` determines, and compares its tokens with the
/// file's.
fn follow_library(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<()> {
    let Some(file) = request.tokenizer()?.filter(|file| !file.model.vocab.tokens.is_empty()) else {
        return Ok(());
    };
    if file.model.kind().is_err() {
        return Ok(());
    }
    // The notes about the class were made when the tokens were read.
    let notes = request.notes.len();
    let tokenizer = fast::Fast::of(&file, request)?;
    request.notes.truncate(notes);
    let made = library::align(&tokenizer, metadata);
    if request.verifies {
        request.notes.extend(match made {
            Ok(made) => library::verify(&tokenizer, &made),
            Err(error) => Some(library::not_compared(&error)),
        });
    }
    Ok(())
}

/// Returns `true` if the description allows the kind for the tokenizer class of the checkpoint.
fn is_possible(kind: VocabularyKind, request: &Request<'_>) -> bool {
    request.spec.of_kind(kind).is_none_or(|of_kind| {
        let classes = &of_kind.tokenizer_classes;
        let named = request.tokenizer_class();
        of_kind.possible
            && (classes.is_empty() || classes.iter().any(|class| Some(&**class) == named))
    })
}

/// Adds the keys of a vocabulary of this kind; returns `false` if the checkpoint has none.
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
        VocabularyKind::Unigram => sentencepiece::write_unigram(request, metadata),
        VocabularyKind::FairseqUnigram => fairseq_unigram::write(request, metadata),
        VocabularyKind::Ranks => ranks::write(request, metadata),
        VocabularyKind::Tekken => tekken::write(request, metadata),
        VocabularyKind::MistralSentencePiece => tekken::write_model(request, metadata),
        VocabularyKind::Builtin => builtin::write(request, metadata),
        VocabularyKind::World => token_lists::write_world(request, metadata),
        VocabularyKind::Jsonl => token_lists::write_jsonl(request, metadata),
        VocabularyKind::Llama2c => token_lists::write_llama2c(request, metadata),
        VocabularyKind::None => {
            metadata.set(keys::TOKENIZER_MODEL, "none");
            Ok(true)
        }
        // `Target`: converted by the description of the target model.
        _ => Ok(false),
    }
}

/// The kinds that tokenizer files can have, in the order they are tried. Kinds that read the same
/// file distinguish themselves by its content.
const KINDS: [VocabularyKind; 11] = [
    VocabularyKind::WordPiece,
    VocabularyKind::LlamaHf,
    VocabularyKind::Bpe,
    VocabularyKind::Ranks,
    VocabularyKind::FairseqUnigram,
    VocabularyKind::Tekken,
    VocabularyKind::Unigram,
    VocabularyKind::SentencePiece,
    VocabularyKind::MistralSentencePiece,
    VocabularyKind::World,
    VocabularyKind::Jsonl,
];

/// Converts tokenizer files (`tokenizer.json`, `tokenizer.model`, `tekken.json` and others,
/// together with files such as `tokenizer_config.json`) to the metadata of a GGUF file; also
/// returns notes. The result is what a conversion writes if the architecture's description has no
/// special rules. `pre` names the pre-tokenizer; by default, it is recognized. It cannot be
/// recognized for a file of ranks.
///
/// # Errors
///
/// Fails if no file can be read, or if the pre-tokenizer is not recognized.
///
/// ```
/// use std::collections::BTreeMap;
/// let mut files = BTreeMap::new();
/// let vocabulary = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
///     "merges": ["a b"]}, "added_tokens": []}"#;
/// files.insert("tokenizer.json".to_owned(), vocabulary.as_bytes().to_vec());
/// let (metadata, _) = ggmill_convert::convert_tokenizer(&files, Some("gpt-2"))?;
/// assert!(metadata.get("tokenizer.ggml.merges").is_some());
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub fn convert_tokenizer(
    files: &dyn SideFiles,
    pre: Option<&str>,
) -> Result<(MetadataBuf, Vec<String>)> {
    let mut spec = VocabularySpec::default();
    spec.kinds = KINDS.to_vec();
    spec.space_prefix = SpacePrefix::First;
    if !files.has("tokenizer.json") {
        spec.ranks = rank_file(files)?.map(RankRules::of_file);
    }
    let (config, assumed) = class_of(files)?;
    let mut metadata = MetadataBuf::new();
    let request = Request::new(files, &config, &spec, pre)?;
    let mut remarks = write_kinds(request, &mut metadata)?;
    remarks.extend(assumed);
    Ok((metadata, remarks))
}

/// Returns the file with ranks. Meta's has the name of a SentencePiece model.
fn rank_file(files: &dyn SideFiles) -> Result<Option<&'static str>> {
    for name in ["tiktoken.model", "tokenizer.model"] {
        if files::vocabulary(files, name)?.is_some_and(|bytes| ranks::are_ranks(&bytes)) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns the tokenizer class that the configuration files specify, as a configuration, and a note
/// if a class was assumed. The rest of `config.json`, such as the number of tokens that the model
/// has room for, is not about the tokenizer.
fn class_of(files: &dyn SideFiles) -> Result<(Value, Option<String>)> {
    const CLASS: &str = "tokenizer_class";
    let config = files::json(files, "config.json")?.unwrap_or_default();
    if let Some(class) = class::named_by(&config) {
        return Ok((json!({ CLASS: class }), None));
    }
    let own = files::json(files, "tokenizer_config.json")?;
    let is_named = own.is_some_and(|own| own.get(CLASS).is_some());
    let is_pair = files.has("vocab.json") && files.has("merges.txt");
    if is_named || !is_pair || files.has("tokenizer.json") {
        return Ok((Value::Null, None));
    }
    let class = "GPT2Tokenizer";
    let remark = format!("no file specifies the class of the tokenizer; {class} was assumed");
    Ok((json!({ CLASS: class }), Some(remark)))
}

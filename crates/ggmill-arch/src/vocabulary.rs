//! Which vocabulary the checkpoints of an architecture have.

use core::fmt;
use core::str::FromStr;

use ggmill_core::MetadataBuf;

use crate::error::{Error, Result, quoted};
use crate::key::Key;
use crate::key_template::KeyTemplate;
use crate::schema::RawVocabulary;

/// How the vocabulary of a checkpoint is converted. The names are those of `kinds` in a
/// description.
///
/// ```
/// use ggmill_arch::VocabularyKind;
/// assert_eq!("sentencepiece".parse::<VocabularyKind>()?, VocabularyKind::SentencePiece);
/// assert_eq!(VocabularyKind::LlamaHf.to_string(), "llama-hf");
/// # Ok::<(), ggmill_arch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VocabularyKind {
    /// Mistral's `tekken.json`, where there is no `tokenizer.json`.
    Tekken,
    /// A SentencePiece model, `tokenizer.model`: pieces with scores.
    SentencePiece,
    /// `tokenizer.json` of a BPE model over characters that falls back to bytes, as
    /// SentencePiece models become in the `transformers` library.
    LlamaHf,
    /// `tokenizer.json` of a BPE model over bytes, with merges and a pre-tokenizer.
    Bpe,
    /// `tokenizer.json` or `vocab.txt` of a WordPiece model.
    WordPiece,
    /// `tokenizer.model`, `sentencepiece.bpe.model` or `tokenizer.json` of a unigram model.
    Unigram,
    /// No vocabulary belongs to the model.
    None,
}

impl VocabularyKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Tekken,
        Self::SentencePiece,
        Self::LlamaHf,
        Self::Bpe,
        Self::WordPiece,
        Self::Unigram,
        Self::None,
    ];

    /// The name a description writes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tekken => "tekken",
            Self::SentencePiece => "sentencepiece",
            Self::LlamaHf => "llama-hf",
            Self::Bpe => "bpe",
            Self::WordPiece => "wordpiece",
            Self::Unigram => "unigram",
            Self::None => "none",
        }
    }
}

impl fmt::Display for VocabularyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for VocabularyKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            Error::description(format!(
                "vocabulary kind {}: expected {}",
                quoted(name),
                known.join(", ")
            ))
        })
    }
}

/// Which vocabulary a model has, and the metadata keys that follow it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VocabularySpec {
    /// The kinds a checkpoint may have, in the order they are tried: the first whose files are
    /// present is converted.
    pub kinds: Vec<VocabularyKind>,
    /// Whether `add_prefix_space` of `tokenizer_config.json` becomes
    /// `tokenizer.ggml.add_space_prefix`, before the vocabulary.
    pub space_prefix: bool,
    /// The keys written after the vocabulary; they replace what it has set.
    pub keys: Vec<Key>,
}

impl VocabularySpec {
    /// Sets the keys that follow the vocabulary.
    pub fn write_keys(&self, metadata: &mut MetadataBuf) {
        for key in &self.keys {
            key.value.set(&key.name, 0, metadata);
        }
    }
}

/// The same before a model's numbers are known.
#[derive(Clone, Debug)]
pub(crate) struct VocabularyTemplate {
    pub(crate) kinds: Vec<VocabularyKind>,
    pub(crate) space_prefix: bool,
    pub(crate) keys: Vec<KeyTemplate>,
}

impl VocabularyTemplate {
    pub(crate) fn understand(
        architecture: &str,
        raw: &RawVocabulary,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let kinds: Vec<VocabularyKind> =
            raw.kinds.iter().map(|kind| kind.parse()).collect::<Result<_>>()?;
        let twice = kinds
            .iter()
            .enumerate()
            .find(|&(place, kind)| kinds.iter().take(place).any(|other| other == kind));
        if let Some((_, kind)) = twice {
            return Err(Error::description(format!("vocabulary kind \"{kind}\" is listed twice")));
        }
        if kinds.is_empty() {
            return Err(Error::description("the vocabulary has no kinds"));
        }
        let mut keys = Vec::with_capacity(raw.keys.0.len());
        for (name, key) in &raw.keys.0 {
            if !name.starts_with("tokenizer.") {
                return Err(Error::description(format!(
                    "key {} of the vocabulary: expected one that begins with \"tokenizer.\"",
                    quoted(name)
                )));
            }
            keys.push(KeyTemplate::understand(architecture, name, key, known)?);
        }
        Ok(Self { kinds, space_prefix: raw.space_prefix, keys })
    }
}

//! The kinds of vocabularies of checkpoints.

use core::fmt;
use core::str::FromStr;

use crate::error::{Error, Result, quoted};

/// The format of the vocabulary of a checkpoint. The names are those of `kinds` in descriptions.
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
    /// Mistral's `tekken.json`, if there is no `tokenizer.json`.
    Tekken,
    /// Mistral's SentencePiece model, `tokenizer.model.v3`.
    MistralSentencePiece,
    /// A SentencePiece model, `tokenizer.model`: pieces with scores.
    SentencePiece,
    /// `tokenizer.json` of a character-level BPE model with byte fallback, the form of SentencePiece
    /// models in the `transformers` library.
    LlamaHf,
    /// Like [`LlamaHf`](Self::LlamaHf), with merges, for readers that apply them.
    CharacterBpe,
    /// `tokenizer.json` of a character-level BPE model, as pieces without scores.
    Unscored,
    /// `tokenizer.json`, or `vocab.json` and `merges.txt`, of a byte-level BPE model with merges and a
    /// pre-tokenizer.
    Bpe,
    /// `tokenizer.json` of a character-level BPE model that splits at whitespace.
    Whitespace,
    /// `tokenizer.json` or `vocab.txt` of a WordPiece model.
    WordPiece,
    /// `tokenizer.model` or `spiece.model` of a unigram model.
    Unigram,
    /// `sentencepiece.bpe.model` or `tokenizer.json` of a unigram model whose first four tokens are
    /// those of the fairseq library.
    FairseqUnigram,
    /// A file of Base64 byte sequences with ranks, as in the `tiktoken` library.
    Ranks,
    /// `rwkv_vocab_v20230424.txt`: byte sequences as literals.
    World,
    /// `tokenizer.jsonl`: a list of tokens with scores and types.
    Jsonl,
    /// `tokenizer.bin` of llama2.c: a list of tokens with scores.
    Llama2c,
    /// A built-in vocabulary, for checkpoints without tokenizer files.
    Builtin,
    /// The vocabulary of the target model of a draft model, by the description of the target's class.
    Target,
    /// The model has no vocabulary.
    None,
}

impl VocabularyKind {
    /// All kinds, in the order of the documentation.
    pub const ALL: [Self; 18] = [
        Self::Tekken,
        Self::MistralSentencePiece,
        Self::SentencePiece,
        Self::LlamaHf,
        Self::CharacterBpe,
        Self::Unscored,
        Self::Bpe,
        Self::Whitespace,
        Self::WordPiece,
        Self::Unigram,
        Self::FairseqUnigram,
        Self::Ranks,
        Self::World,
        Self::Jsonl,
        Self::Llama2c,
        Self::Builtin,
        Self::Target,
        Self::None,
    ];

    /// Returns the name in descriptions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tekken => "tekken",
            Self::MistralSentencePiece => "mistral-sentencepiece",
            Self::SentencePiece => "sentencepiece",
            Self::LlamaHf => "llama-hf",
            Self::CharacterBpe => "character-bpe",
            Self::Unscored => "unscored",
            Self::Bpe => "bpe",
            Self::Whitespace => "whitespace",
            Self::WordPiece => "wordpiece",
            Self::Unigram => "unigram",
            Self::FairseqUnigram => "fairseq-unigram",
            Self::Ranks => "ranks",
            Self::World => "world",
            Self::Jsonl => "jsonl",
            Self::Llama2c => "llama2c",
            Self::Builtin => "builtin",
            Self::Target => "target",
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

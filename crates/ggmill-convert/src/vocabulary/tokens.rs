//! A list of tokens with what is known of each.

use std::collections::BTreeSet;

use ggmill_arch::VocabularySpec;
use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};
pub(crate) use ggmill_tokenizer::tokenizer_json::MAX_TOKENS;

/// `tokenizer.ggml.model` of a vocabulary of SentencePiece's kind.
pub(crate) const SENTENCEPIECE: &str = "llama";
/// `tokenizer.ggml.model` of byte-level BPE.
pub(crate) const BYTE_LEVEL: &str = "gpt2";
/// `tokenizer.ggml.model` of WordPiece.
pub(crate) const WORD_PIECE: &str = "bert";
/// `tokenizer.ggml.model` of a unigram model.
pub(crate) const UNIGRAM: &str = "t5";
/// `tokenizer.ggml.model` of a BPE model over characters with merges.
pub(crate) const CHARACTER_BPE: &str = "gemma4";
/// `tokenizer.ggml.model` of a BPE model over characters that splits texts at whitespace.
pub(crate) const WHITESPACE: &str = "whitespace";
/// `tokenizer.ggml.model` of byte sequences that are matched greedily.
pub(crate) const WORLD: &str = "rwkv";
/// `tokenizer.ggml.model` of a list of tokens with scores, matched by the best sum of them.
pub(crate) const SCORED: &str = "plamo2";

/// The numbers of `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum TokenType {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

/// Tokens by ID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) texts: Vec<String>,
    pub(crate) scores: Vec<f32>,
    pub(crate) types: Vec<i32>,
}

impl Tokens {
    /// As many placeholders, `[PAD0]` and on. Fails when there are more than [`MAX_TOKENS`].
    pub(crate) fn placeholders(count: u64, score: f32) -> Result<Self> {
        let count = bounded(count)?;
        Ok(Self {
            texts: (0..count).map(|id| format!("[PAD{id}]")).collect(),
            scores: vec![score; count],
            types: vec![TokenType::Unused as i32; count],
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(crate) fn push(&mut self, text: String, score: f32, token_type: TokenType) {
        self.texts.push(text);
        self.scores.push(score);
        self.types.push(token_type as i32);
    }

    /// Replaces the token of this ID and says whether there is one.
    pub(crate) fn set(
        &mut self,
        id: usize,
        text: String,
        score: f32,
        token_type: TokenType,
    ) -> bool {
        let (Some(place), Some(place_score), Some(place_type)) =
            (self.texts.get_mut(id), self.scores.get_mut(id), self.types.get_mut(id))
        else {
            return false;
        };
        *place = text;
        *place_score = score;
        *place_type = token_type as i32;
        true
    }

    /// Sets the keys of the list, with scores or without. Tokens whose types the description knows
    /// have those.
    pub(crate) fn write_to(
        &mut self,
        scores: bool,
        spec: &VocabularySpec,
        metadata: &mut MetadataBuf,
    ) {
        self.force(&spec.control, TokenType::Control);
        self.force(&spec.user_defined, TokenType::UserDefined);
        metadata.set(keys::TOKENIZER_TOKENS, &self.texts);
        if scores {
            metadata.set(keys::TOKENIZER_SCORES, &self.scores);
        }
        metadata.set(keys::TOKENIZER_TOKEN_TYPE, &self.types);
    }
}

impl Tokens {
    /// Gives the tokens with these texts a type.
    fn force(&mut self, texts: &[String], token_type: TokenType) {
        if texts.is_empty() {
            return;
        }
        let texts: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
        for (text, known) in self.texts.iter().zip(&mut self.types) {
            if texts.contains(&**text) {
                *known = token_type as i32;
            }
        }
    }

    /// The ID of the token with this text.
    pub(crate) fn id(&self, text: &str) -> Option<u32> {
        self.texts.iter().position(|known| known == text).and_then(|id| u32::try_from(id).ok())
    }
}

/// The number of tokens for which memory is reserved.
pub(crate) fn bounded(count: u64) -> Result<usize> {
    usize::try_from(count).ok().filter(|&count| count <= MAX_TOKENS).ok_or_else(|| {
        let message = format!("a vocabulary of {count} tokens, the limit is {MAX_TOKENS}");
        Error::new(ErrorKind::Checkpoint, message)
    })
}

/// Whether a token that is not marked as special is one: some models forget the mark.
pub(crate) fn looks_special(token: &str) -> bool {
    let between = |start, end| token.starts_with(start) && token.ends_with(end);
    ["<pad>", "<mask>", "<2mass>", "[@BOS@]"].contains(&token)
        || between("<|", "|>")
        || between("<｜", "｜>")
        || between("<unused", ">")
}

/// The text of a token that users define: spaces as they are, not as SentencePiece writes them.
pub(crate) fn with_spaces(token: &str) -> String {
    token.replace('\u{2581}', " ")
}

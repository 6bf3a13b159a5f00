//! A list of tokens with what is known of each.

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// `tokenizer.ggml.model` of a vocabulary of SentencePiece's kind.
pub(crate) const SENTENCEPIECE: &str = "llama";
/// `tokenizer.ggml.model` of byte-level BPE.
pub(crate) const BYTE_LEVEL: &str = "gpt2";

/// The most tokens a vocabulary can have; the largest in use have about 262,144.
pub(crate) const MAX_TOKENS: usize = 1 << 22;

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

    /// Sets the keys of the list, with scores or without.
    pub(crate) fn write_to(&self, scores: bool, metadata: &mut MetadataBuf) {
        metadata.set(keys::TOKENIZER_TOKENS, &self.texts);
        if scores {
            metadata.set(keys::TOKENIZER_SCORES, &self.scores);
        }
        metadata.set(keys::TOKENIZER_TOKEN_TYPE, &self.types);
    }
}

/// A number of tokens that memory is taken for.
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

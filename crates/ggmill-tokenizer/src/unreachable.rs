//! Tokens that no text gives, merges that are never applied, and bytes that no token stands for.

use crate::attributes::Attributes;
use crate::models::bpe::Work;
use crate::models::{Model, spm};
use crate::tokenizer::Tokenizer;

/// A merge whose result never comes up in a text, so that it is never applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleMerge {
    /// Its place in `tokenizer.ggml.merges`.
    pub rank: u32,
    /// The text that it would produce, as tokens are written in the file; not necessarily a token.
    pub product: Vec<u8>,
}

/// Contexts in which a word can be a token: what is before it, and what is after it.
const AROUND: [(&str, &str); 8] =
    [("", ""), ("a", ""), ("", "a"), (" ", "a"), ("\n", "a"), ("1", ""), (".", ""), ("", ".")];

impl Tokenizer {
    /// The tokens of ordinary text that no text gives, in the order of their IDs: merges of their
    /// characters lead elsewhere. None for models that do not merge.
    ///
    /// Only what merges say is examined: a pre-tokenizer may keep more tokens from coming up
    /// ([`pre_tokenizer_fit`](Self::pre_tokenizer_fit)).
    ///
    /// ```
    /// use ggmill_core::MetadataBuf;
    /// use ggmill_tokenizer::Tokenizer;
    /// let mut metadata = MetadataBuf::new();
    /// metadata.set("tokenizer.ggml.model", "gpt2");
    /// metadata.set("tokenizer.ggml.pre", "gpt-2");
    /// metadata.set("tokenizer.ggml.tokens", ["a", "b", "ab", "ba", "bab"].as_slice());
    /// metadata.set("tokenizer.ggml.merges", ["a b", "ba b"].as_slice());
    /// let tokenizer = Tokenizer::from_entries(metadata)?;
    /// assert_eq!(tokenizer.unreachable_tokens(), [3, 4]);
    /// // "ba" never comes up, so that it is never merged.
    /// assert_eq!(tokenizer.idle_merges().len(), 1);
    /// # Ok::<(), ggmill_tokenizer::Error>(())
    /// ```
    pub fn unreachable_tokens(&self) -> Vec<u32> {
        let vocabulary = self.vocabulary();
        let is_ordinary = |id: &u32| vocabulary.attributes(*id) == Attributes::NORMAL;
        let escapes = vocabulary.flags().escape_whitespaces;
        let text = |id: u32| vocabulary.text(id).unwrap_or_default();
        // Spaces of a text are written in another way before anything is merged.
        let has_space = |id: u32| escapes && text(id).contains(&b' ');
        let ordinary = (0..vocabulary.len()).filter(is_ordinary);
        match self.model() {
            Model::Bpe(model) if model.is_plain() => {
                let mut work = Work::default();
                let as_word = |id: u32| model.takes_whole_words() && self.is_word(id);
                let comes_up = |id: u32, work: &mut Work| {
                    !has_space(id) && model.comes_up(vocabulary, text(id), work) || as_word(id)
                };
                ordinary.filter(|&id| !comes_up(id, &mut work)).collect()
            }
            Model::Spm(_) => {
                let mut memory = spm::Scratch::default();
                let mut comes_up = |id: u32| {
                    !has_space(id) && spm::Spm::comes_up(vocabulary, text(id), &mut memory)
                };
                ordinary.filter(|&id| !comes_up(id)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the pre-tokenizer can leave the text of a token as a word.
    fn is_word(&self, id: u32) -> bool {
        let (Model::Bpe(model), Some(piece)) = (self.model(), self.piece(id)) else { return false };
        if std::str::from_utf8(piece).is_err() {
            return false;
        }
        AROUND.iter().any(|(before, after)| {
            let text = [before.as_bytes(), piece, after.as_bytes()].concat();
            let range = (before.len(), before.len().saturating_add(piece.len()));
            model.cut_words(&text).contains(&range)
        })
    }

    /// The merges whose result never comes up in a text, in the order of their ranks. Of several
    /// merges with one result, one is enough for it to come up. None for models without merges.
    pub fn idle_merges(&self) -> Vec<IdleMerge> {
        let Model::Bpe(model) = self.model() else { return Vec::new() };
        let idle = model.idle_merges(self.vocabulary());
        idle.into_iter().map(|(rank, product)| IdleMerge { rank, product }).collect()
    }

    /// The bytes of text that are left out since no token stands for them, in ascending order; bytes
    /// that occur in no UTF-8 text are not among them. None for models of other kinds than byte
    /// pairs, which have a token for what is unknown.
    pub fn lost_bytes(&self) -> Vec<u8> {
        match self.model() {
            Model::Bpe(model) if model.is_plain() => model.lost_bytes(self.vocabulary()),
            _ => Vec::new(),
        }
    }
}

//! Why two tokenizers cut a text differently.

use std::fmt;

use crate::attributes::Attributes;
use crate::compare::Difference;
use crate::models::Model;
use crate::sink::Piece;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Kind;

/// The property of two vocabularies that explains a difference between their tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Their models are different.
    Model,
    /// One adds a token at the beginning or end that the other does not add.
    AddedToken,
    /// A token is a special token of one, and not of the other.
    SpecialToken,
    /// One puts a space before the text, or has it in other case, without accents, without repeated
    /// spaces or with another character for spaces.
    Normalization,
    /// Their pre-tokenizers cut this part of the text into different words.
    PreTokenizer,
    /// One has a token that the other lacks.
    Token,
    /// The same words are merged differently, or tokens have other scores.
    Merges,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "the tokenizers have different models",
            Self::AddedToken => "only one tokenizer adds a token at the beginning or the end",
            Self::SpecialToken => "a token is special in only one of the vocabularies",
            Self::Normalization => "the text is normalized differently",
            Self::PreTokenizer => "the pre-tokenizers split this part into different words",
            Self::Token => "one vocabulary lacks a token of the other",
            Self::Merges => "the merges or scores are different",
        })
    }
}

impl Difference {
    /// Why two tokenizers differ here, the most likely reason first. The text is the one that was
    /// compared; at least one reason is given.
    pub fn reasons(&self, left: &Tokenizer, right: &Tokenizer, text: &[u8]) -> Vec<Reason> {
        let both = [(left, &self.left, right), (right, &self.right, left)];
        let mut reasons = Vec::new();
        let kinds = (left.vocabulary().kind(), right.vocabulary().kind());
        if kinds.0 != kinds.1 {
            reasons.push(Reason::Model);
        }
        let is_added = |piece: &Piece| piece.start == piece.end;
        if both.iter().any(|(_, pieces, _)| pieces.iter().any(is_added)) {
            reasons.push(Reason::AddedToken);
        }
        let special = Attributes::CONTROL | Attributes::USER_DEFINED;
        let is_special = |one: &Tokenizer, other: &Tokenizer, piece: &Piece| {
            let text = one.vocabulary().text(piece.id).unwrap_or_default();
            let of_other = other.vocabulary().id(text);
            let attributes = of_other.map(|id| other.vocabulary().attributes(id));
            !is_added(piece)
                && one.vocabulary().attributes(piece.id).intersects(special)
                && !attributes.is_some_and(|attributes| attributes.intersects(special))
        };
        if both
            .iter()
            .any(|(one, pieces, other)| pieces.iter().any(|piece| is_special(one, other, piece)))
        {
            reasons.push(Reason::SpecialToken);
        }
        if is_normalized(left) != is_normalized(right) {
            reasons.push(Reason::Normalization);
        }
        if kinds == (Kind::Bpe, Kind::Bpe) && self.words(left, text) != self.words(right, text) {
            reasons.push(Reason::PreTokenizer);
        }
        let lacks = |one: &Tokenizer, other: &Tokenizer, piece: &Piece| {
            let text = one.vocabulary().text(piece.id).unwrap_or_default();
            other.vocabulary().id(text).is_none()
        };
        if both
            .iter()
            .any(|(one, pieces, other)| pieces.iter().any(|piece| lacks(one, other, piece)))
        {
            reasons.push(Reason::Token);
        }
        if reasons.is_empty() {
            reasons.push(Reason::Merges);
        }
        reasons
    }

    /// The words that are cut in this part of the text, with what is around it.
    fn words(&self, tokenizer: &Tokenizer, text: &[u8]) -> Vec<(usize, usize)> {
        /// How much of the text around the part is examined.
        const AROUND: usize = 256;
        let line = |byte: &u8| *byte == b'\n';
        let before = &text[..self.start.min(text.len())];
        let from = before.iter().rposition(line).unwrap_or_default();
        let from = from.max(self.start.saturating_sub(AROUND));
        let to = self.end.saturating_add(AROUND).min(text.len());
        let near = text.get(from..to).unwrap_or_default();
        let (start, end) = (self.start.saturating_sub(from), self.end.saturating_sub(from));
        let mut words = tokenizer.words(near);
        words.retain(|&(a, b)| a < end && start < b);
        words
    }
}

/// What is done to a text before it is cut.
fn is_normalized(tokenizer: &Tokenizer) -> [bool; 5] {
    let flags = tokenizer.vocabulary().flags();
    let folds = tokenizer.vocabulary().kind() == Kind::Wpm;
    [
        flags.add_space_prefix,
        flags.lowercase && folds,
        flags.strip_accents && folds,
        flags.remove_extra_whitespaces,
        flags.escape_whitespaces,
    ]
}

impl Tokenizer {
    /// The words that the pre-tokenizer cuts a text into, as ranges of bytes; empty where the model
    /// has none. Special tokens are not looked for.
    pub fn words(&self, text: impl AsRef<[u8]>) -> Vec<(usize, usize)> {
        match self.model() {
            Model::Bpe(model) => model.cut_words(text.as_ref()),
            _ => Vec::new(),
        }
    }
}

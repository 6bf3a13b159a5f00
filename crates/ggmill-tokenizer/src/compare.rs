//! Comparing two tokenizers on a text, and finding the pre-tokenizer for which they agree.

use std::fmt;
use std::ops::Range;

use ggmill_core::Metadata;

use crate::error::Error;
use crate::models::Model;
use crate::pre;
use crate::tokenizer::{EncodeOptions, Piece, Tokenizer};
use crate::vocabulary::load::LoadOptions;
use crate::vocabulary::{Attributes, Kind};

/// A comparison of the tokens of two tokenizers for the same text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// The number of tokens of the first tokenizer.
    pub left: usize,
    /// The number of tokens of the second tokenizer.
    pub right: usize,
    /// The number of tokens with the same range and text, but different IDs.
    pub renumbered: usize,
    /// The number of parts of the text that are split differently.
    pub differences: usize,
    /// The first of these parts.
    pub first: Option<Difference>,
}

impl Comparison {
    /// Returns `true` if the tokens and their IDs are the same.
    pub fn is_equal(&self) -> bool {
        self.differences == 0 && self.renumbered == 0
    }
}

/// A part of a text that two tokenizers split differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The start of the part in bytes.
    pub start: usize,
    /// The end of the part.
    pub end: usize,
    /// The tokens of the first tokenizer. One of both lists may be empty.
    pub left: Vec<Piece>,
    /// The tokens of the second tokenizer.
    pub right: Vec<Piece>,
}

/// Compares the tokens of two tokenizers for a text. Two tokens are the same if they have the same
/// range and the same text.
///
/// Fails if [`Tokenizer::encode`] does.
pub fn compare(
    left: &Tokenizer,
    right: &Tokenizer,
    text: impl AsRef<[u8]>,
    options: &EncodeOptions,
) -> Result<Comparison, Error> {
    let text = text.as_ref();
    let (mut one, mut other) = (Vec::new(), Vec::new());
    left.encode_with_offsets(text, options, &mut one)?;
    right.encode_with_offsets(text, options, &mut other)?;
    let mut found = Comparison {
        left: one.len(),
        right: other.len(),
        renumbered: 0,
        differences: 0,
        first: None,
    };
    let same = |a: &Piece, b: &Piece| {
        (a.start, a.end) == (b.start, b.end) && left.piece(a.id) == right.piece(b.id)
    };
    let (mut a, mut b) = (0, 0);
    while a < one.len() || b < other.len() {
        if let (Some(x), Some(y)) = (one.get(a), other.get(b))
            && same(x, y)
        {
            found.renumbered += usize::from(x.id != y.id);
            (a, b) = (a + 1, b + 1);
            continue;
        }
        let from = (a, b);
        // Skip to the next position where both have the same token.
        loop {
            let ends = (place(&one, a, text.len()), place(&other, b, text.len()));
            if a < one.len() && (ends.0 <= ends.1 || b == other.len()) {
                a += 1;
            } else if b < other.len() {
                b += 1;
            }
            let met = place(&one, a, text.len()) == place(&other, b, text.len());
            let at_end = a == one.len() && b == other.len();
            let again = one.get(a).zip(other.get(b)).is_some_and(|(x, y)| same(x, y));
            if at_end || met && again {
                break;
            }
        }
        found.differences += 1;
        if found.first.is_none() {
            let (left, right) = (&one[from.0..a], &other[from.1..b]);
            let both = || left.iter().chain(right);
            found.first = Some(Difference {
                start: both().map(|piece| piece.start).min().unwrap_or_default(),
                end: both().map(|piece| piece.end).max().unwrap_or_default(),
                left: left.to_vec(),
                right: right.to_vec(),
            });
        }
    }
    Ok(found)
}

/// Returns the start of a token, or the end of the text.
fn place(pieces: &[Piece], number: usize, end: usize) -> usize {
    pieces.get(number).map_or(end, |piece| piece.start)
}

/// A part of a text whose token IDs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdDifference {
    /// The differing tokens of the first list.
    pub left: Range<usize>,
    /// The differing tokens of the second list.
    pub right: Range<usize>,
}

/// Returns the parts in which two lists of token IDs differ. After a difference, both are the same
/// again where two IDs in a row are equal, at most 64 tokens later; the rest is one difference if
/// there is no such place.
///
/// ```
/// let found = ggmill_tokenizer::compare_ids(&[1, 2, 3, 4], &[1, 9, 8, 3, 4]);
/// assert_eq!((found[0].left.clone(), found[0].right.clone()), (1..2, 1..3));
/// ```
pub fn compare_ids(left: &[u32], right: &[u32]) -> Vec<IdDifference> {
    const NEAR: usize = 64;
    let (mut a, mut b) = (0, 0);
    let mut found = Vec::new();
    let meets = |a: usize, b: usize| {
        let next = |ids: &[u32], from: usize| [ids.get(from).copied(), ids.get(from + 1).copied()];
        next(left, a) == next(right, b)
    };
    while a < left.len() || b < right.len() {
        if left.get(a).is_some() && left.get(a) == right.get(b) {
            (a, b) = (a + 1, b + 1);
            continue;
        }
        let near =
            (1..=2 * NEAR).flat_map(|sum| (0..=sum).map(move |of_left| (of_left, sum - of_left)));
        let mut near = near.map(|(of_left, of_right)| (a + of_left, b + of_right));
        let end = near
            .find(|&(x, y)| x <= left.len() && y <= right.len() && meets(x, y))
            .unwrap_or((left.len(), right.len()));
        found.push(IdDifference { left: a..end.0, right: b..end.1 });
        (a, b) = end;
    }
    found
}

/// A difference between two vocabularies that explains different tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The models differ.
    Model,
    /// Only one adds a token at the beginning or the end.
    AddedToken,
    /// A token is special in only one of them.
    SpecialToken,
    /// The text is normalized differently: a space prefix, lower case, accents, repeated spaces, or
    /// the character for spaces.
    Normalization,
    /// The pre-tokenizers split this part into different words.
    PreTokenizer,
    /// One vocabulary lacks a token of the other.
    Token,
    /// The merges or scores differ.
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
    /// Returns at least one reason why the tokenizers differ here, the most likely first. `text` is
    /// the text that was compared.
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
        if normalization(left) != normalization(right) {
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

    /// Returns the words that overlap this part of the text, relative to a position near it.
    fn words(&self, tokenizer: &Tokenizer, text: &[u8]) -> Vec<(usize, usize)> {
        /// The number of bytes before and after the part that are pre-tokenized with it.
        const CONTEXT: usize = 256;
        let line = |byte: &u8| *byte == b'\n';
        let before = &text[..self.start.min(text.len())];
        let from = before.iter().rposition(line).unwrap_or_default();
        let from = from.max(self.start.saturating_sub(CONTEXT));
        let to = self.end.saturating_add(CONTEXT).min(text.len());
        let near = text.get(from..to).unwrap_or_default();
        let (start, end) = (self.start.saturating_sub(from), self.end.saturating_sub(from));
        let mut words = tokenizer.words(near);
        words.retain(|&(a, b)| a < end && start < b);
        words
    }
}

/// Returns the flags that change a text before it is split.
fn normalization(tokenizer: &Tokenizer) -> [bool; 5] {
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
    /// Returns the byte ranges of the words into which the pre-tokenizer splits a text; none if the
    /// model has no pre-tokenizer. Special tokens are not recognized.
    pub fn words(&self, text: impl AsRef<[u8]>) -> Vec<(usize, usize)> {
        match self.model() {
            Model::Bpe(model) => model.split_words(text.as_ref()),
            _ => Vec::new(),
        }
    }
}

/// How well the rules of a pre-tokenizer agree with a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fit {
    /// The names in `tokenizer.ggml.pre` that have these rules.
    pub names: Vec<&'static str>,
    /// The number of parts of the text that the reference splits differently.
    pub differences: usize,
}

/// Advice about the pre-tokenizer of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// The name in the file fits best.
    Keep,
    /// This name fits, and the name in the file does not.
    Replace(&'static str),
    /// Several names with different rules fit; a longer text could distinguish them.
    Undecided(Vec<&'static str>),
    /// No name gives the tokens of the reference: the vocabularies differ in more than the
    /// pre-tokenizer.
    NoneFits,
}

/// The pre-tokenizers that agree with a reference, and advice for the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fitting {
    /// All rules, those with the fewest differences first. Empty if the tokenizer of the file has
    /// no pre-tokenizer.
    pub fits: Vec<Fit>,
    /// Advice for `tokenizer.ggml.pre`.
    pub advice: Advice,
}

/// Tries all pre-tokenizers with the vocabulary of a file, and compares their tokens for a text
/// with those of a reference.
///
/// Names with the same rules can add different tokens at the beginning and the end. The advice is a
/// name that adds the tokens that the reference adds, and prefers the name of the reference.
///
/// Fails if [`Tokenizer::with_options`] or [`compare`] does.
pub fn fitting_pre_tokenizers(
    metadata: &Metadata<'_>,
    reference: &Tokenizer,
    text: impl AsRef<[u8]>,
    options: &EncodeOptions,
) -> Result<Fitting, Error> {
    let text = text.as_ref();
    let with = |name: &str| Tokenizer::with_options(metadata, &LoadOptions::new().pre(name));
    let mut fits: Vec<(&str, Fit)> = Vec::new();
    for name in pre::names() {
        let rules = pre::rules(name).unwrap_or(name);
        if let Some((_, fit)) = fits.iter_mut().find(|(known, _)| *known == rules) {
            fit.names.push(name);
            continue;
        }
        let tokenizer = with(name)?;
        if tokenizer.vocabulary().pre_tokenizer().is_none() {
            return Ok(Fitting { fits: Vec::new(), advice: Advice::Keep });
        }
        let options = options.add_special(false);
        let differences = compare(&tokenizer, reference, text, &options)?.differences;
        fits.push((rules, Fit { names: vec![name], differences }));
    }
    let mut fits: Vec<Fit> = fits.into_iter().map(|(_, fit)| fit).collect();
    fits.sort_by_key(|fit| fit.differences);

    let added = |tokenizer: &Tokenizer| -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        tokenizer.encode("", &options.add_special(true), &mut ids)?;
        Ok(ids)
    };
    let expected = added(reference)?;
    let adds_same_tokens = |name: &str| Ok::<_, Error>(added(&with(name)?)? == expected);
    let best: Vec<&Fit> = fits.iter().filter(|fit| fit.differences == 0).collect();
    let fitting = |name: &str| {
        let mut names = best.iter().flat_map(|fit| &fit.names);
        names.find(|known| **known == name).copied()
    };
    let own = metadata.str("tokenizer.ggml.pre").unwrap_or("default");
    let theirs = reference.vocabulary().pre_tokenizer().and_then(fitting);
    let advice = if best.is_empty() {
        Advice::NoneFits
    } else if fitting(own).is_some() && adds_same_tokens(own)? {
        Advice::Keep
    } else if let Some(name) = theirs
        && adds_same_tokens(name)?
    {
        Advice::Replace(name)
    } else {
        // One name for each set of rules.
        let mut names = Vec::new();
        for fit in &best {
            for name in &fit.names {
                if adds_same_tokens(name)? {
                    names.push(*name);
                    break;
                }
            }
        }
        match *names {
            [] => Advice::NoneFits,
            [name] => Advice::Replace(name),
            _ => Advice::Undecided(names),
        }
    };
    Ok(Fitting { fits, advice })
}

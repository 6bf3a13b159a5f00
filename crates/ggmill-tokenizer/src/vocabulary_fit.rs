//! Whether a pre-tokenizer is the one that a vocabulary was made for, by its tokens alone.
//!
//! Merges are learnt within words, so that no token of a vocabulary lies across a place where the
//! pre-tokenizer cuts that it was made with. Where another is named, many do.

use crate::attributes::Attributes;
use crate::models::Model;
use crate::models::bpe::Work;
use crate::pre::{self, Memo, PreTokenizer, Words};
use crate::tokenizer::Tokenizer;

/// How a pre-tokenizer treats the tokens of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenFit {
    /// The names in `tokenizer.ggml.pre` that have these rules.
    pub names: Vec<&'static str>,
    /// The tokens that it never leaves in one word.
    pub cut: usize,
    /// The first of them.
    pub first: Option<u32>,
}

/// How well pre-tokenizers fit the tokens of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VocabularyFit {
    /// The tokens that were examined: those that merges make of several ASCII characters.
    pub tokens: usize,
    /// The pre-tokenizer of the vocabulary.
    pub own: TokenFit,
    /// Another that fits much better, where there is one. Of several it is the one that cuts an
    /// ordinary text into the most words: a vocabulary cannot tell what is never cut from what is
    /// cut elsewhere.
    pub better: Option<TokenFit>,
}

/// What may be before a token and after it, so that a word has it.
const AROUND: [(&str, &str); 12] = [
    ("", ""),
    ("a", ""),
    ("", "a"),
    ("a", "a"),
    (" ", ""),
    (" ", "a"),
    ("", " a"),
    ("1", ""),
    ("", "1"),
    ("\n", ""),
    ("", "\n"),
    (".", "."),
];

/// A text with what pre-tokenizers treat differently.
const SAMPLE: &str = "It's 1234567 o'clock, they'LL say:\n\n\tif (x_1 >= 3.14) { return -1; }  // \
    CamelCase's\r\n   Größe ÉTÉ 東京は12月です。 한국어 русский ١٢٣ e\u{301}te\u{301} 🦙🦙 a--b... \
    http://a.b/c?d=e&f#g   \n";

/// The fewest tokens that a pre-tokenizer has to cut, in all and of a thousand, to be doubted.
const LEAST: (usize, usize) = (64, 2);
/// How many times fewer another has to cut.
const TIMES: usize = 8;

impl Tokenizer {
    /// How well the pre-tokenizer fits the tokens, and another that fits much better, if there is
    /// one. `None` where text is not merged in the alphabet of bytes, or there are few tokens.
    ///
    /// Rules that cut less than those the vocabulary was made with cut none of its tokens either:
    /// that a pre-tokenizer fits does not say that it is the right one.
    pub fn pre_tokenizer_fit(&self) -> Option<VocabularyFit> {
        let own = self.vocabulary().pre?;
        let Model::Bpe(model) = self.model() else { return None };
        if !model.is_plain() || !model.is_of_bytes() {
            return None;
        }
        let tokens = self.merged_tokens();
        if tokens.len() < LEAST.0 {
            return None;
        }
        let own_fit = fit(own, &tokens)?;
        let least = LEAST.0.max(tokens.len() / 1000 * LEAST.1);
        let mut better: Option<(usize, TokenFit)> = None;
        if own_fit.cut >= least {
            for pre in pre::all_rules().filter(|pre| !pre.raw && pre.rules != own.rules) {
                let Some(found) = fit(pre, &tokens) else { continue };
                let words = words(pre)?;
                let is_better = better.as_ref().is_none_or(|(most, _)| words > *most);
                if found.cut.saturating_mul(TIMES) <= own_fit.cut && is_better {
                    better = Some((words, found));
                }
            }
        }
        let better = better.map(|(_, fit)| fit);
        Some(VocabularyFit { tokens: tokens.len(), own: own_fit, better })
    }

    /// The tokens of several ASCII characters that merges make, and their text. Of other characters
    /// expressions differ in so many ways that authors change theirs after the merges were learnt:
    /// that of Qwen 2 cuts its own tokens of full-width digits and of combining marks.
    fn merged_tokens(&self) -> Vec<(u32, &str)> {
        let vocabulary = self.vocabulary();
        let Model::Bpe(model) = self.model() else { return Vec::new() };
        let mut work = Work::default();
        let mut tokens = Vec::new();
        for id in 0..vocabulary.len() {
            let is_ordinary = vocabulary.attributes(id) == Attributes::NORMAL;
            let piece = self.piece(id).filter(|piece| piece.is_ascii());
            let piece = piece.and_then(|piece| std::str::from_utf8(piece).ok());
            let several = piece.filter(|piece| is_ordinary && piece.len() > 1);
            if let (Some(piece), Some(text)) = (several, vocabulary.text(id))
                && model.comes_up(vocabulary, text, &mut work)
            {
                tokens.push((id, piece));
            }
        }
        tokens
    }
}

/// How the rules treat the tokens.
fn fit(pre: &PreTokenizer, tokens: &[(u32, &str)]) -> Option<TokenFit> {
    let words = Words::new(pre)?;
    let (mut memos, mut text) = (Vec::new(), Vec::new());
    let mut is_cut = |piece: &str| {
        !AROUND.iter().any(|(before, after)| {
            text.clear();
            for part in [before, piece, after] {
                text.extend_from_slice(part.as_bytes());
            }
            has_whole(&words, &text, before.len(), before.len() + piece.len(), &mut memos)
        })
    };
    let mut cut = tokens.iter().filter(|(_, piece)| is_cut(piece)).map(|(id, _)| *id);
    let first = cut.next();
    let cut = cut.count() + usize::from(first.is_some());
    let mut names: Vec<&str> =
        pre::names().filter(|name| pre::rules(name) == Some(pre.rules)).collect();
    // The best known is that of the rules.
    names.sort_by_key(|name| *name != pre.rules);
    Some(TokenFit { names, cut, first })
}

/// Whether one word has a part of a text.
fn has_whole(words: &Words, text: &[u8], from: usize, to: usize, memos: &mut Vec<Memo>) -> bool {
    let mut has = false;
    words.cut(text, memos, &mut |start, end| has |= start <= from && to <= end);
    has
}

/// The number of words of the sample.
fn words(pre: &PreTokenizer) -> Option<usize> {
    let mut count = 0;
    Words::new(pre)?.cut(SAMPLE.as_bytes(), &mut Vec::new(), &mut |_, _| count += 1);
    Some(count)
}

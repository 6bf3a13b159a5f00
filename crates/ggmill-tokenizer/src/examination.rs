//! Defects of a vocabulary: unreachable tokens, idle merges, bytes without a token, and a
//! pre-tokenizer that does not fit.

use crate::models::bpe::Work;
use crate::models::{Model, spm};
use crate::pre::{self, Memo, PreTokenizer, Words};
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Attributes;

/// A merge that is never applied, since no text yields its result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleMerge {
    /// Its index in `tokenizer.ggml.merges`.
    pub rank: u32,
    /// Its result, as tokens are written in the file. It need not be a token.
    pub product: Vec<u8>,
}

/// The text before and after a token in which [`Tokenizer::is_word`] tries it.
const WORD_CONTEXTS: [(&str, &str); 8] =
    [("", ""), ("a", ""), ("", "a"), (" ", "a"), ("\n", "a"), ("1", ""), (".", ""), ("", ".")];

impl Tokenizer {
    /// Returns the normal tokens that encoding never yields, in ascending order: merging their
    /// characters gives other tokens. Returns none for models that do not merge.
    ///
    /// This examines only merges. The pre-tokenizer can make more tokens unreachable
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
    /// // No merge yields "ba", so that "ba b" is never applied.
    /// assert_eq!(tokenizer.idle_merges().len(), 1);
    /// # Ok::<(), ggmill_tokenizer::Error>(())
    /// ```
    pub fn unreachable_tokens(&self) -> Vec<u32> {
        let vocabulary = self.vocabulary();
        let is_ordinary = |id: &u32| vocabulary.attributes(*id) == Attributes::NORMAL;
        let escapes = vocabulary.flags().escape_whitespaces;
        let text = |id: u32| vocabulary.text(id).unwrap_or_default();
        // Spaces of a text are escaped before symbols are merged.
        let has_space = |id: u32| escapes && text(id).contains(&b' ');
        let ordinary = (0..vocabulary.len()).filter(is_ordinary);
        match self.model() {
            Model::Bpe(model) if model.is_plain() => {
                let mut work = Work::default();
                let as_word = |id: u32| model.ignores_merges() && self.is_word(id);
                let is_reachable = |id: u32, work: &mut Work| {
                    !has_space(id) && model.is_reachable(vocabulary, text(id), work) || as_word(id)
                };
                ordinary.filter(|&id| !is_reachable(id, &mut work)).collect()
            }
            Model::Spm(_) => {
                let mut memory = spm::Scratch::default();
                let mut is_reachable = |id: u32| {
                    !has_space(id) && spm::Spm::is_reachable(vocabulary, text(id), &mut memory)
                };
                ordinary.filter(|&id| !is_reachable(id)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns `true` if the pre-tokenizer yields the text of a token as a word in some context.
    fn is_word(&self, id: u32) -> bool {
        let (Model::Bpe(model), Some(piece)) = (self.model(), self.piece(id)) else { return false };
        if std::str::from_utf8(piece).is_err() {
            return false;
        }
        WORD_CONTEXTS.iter().any(|(before, after)| {
            let text = [before.as_bytes(), piece, after.as_bytes()].concat();
            let range = (before.len(), before.len().saturating_add(piece.len()));
            model.split_words(&text).contains(&range)
        })
    }

    /// Returns the merges whose result no text yields, by rank. Several merges with the same result
    /// are idle only together. Returns none for models without merges.
    pub fn idle_merges(&self) -> Vec<IdleMerge> {
        let Model::Bpe(model) = self.model() else { return Vec::new() };
        let idle = model.idle_merges(self.vocabulary());
        idle.into_iter().map(|(rank, product)| IdleMerge { rank, product }).collect()
    }

    /// Returns the bytes that encoding drops, since no token represents them, in ascending order.
    /// Bytes that never occur in UTF-8 are omitted. Returns none for models other than BPE, which
    /// have an unknown token.
    pub fn lost_bytes(&self) -> Vec<u8> {
        match self.model() {
            Model::Bpe(model) if model.is_plain() => model.lost_bytes(self.vocabulary()),
            _ => Vec::new(),
        }
    }
}

/// How well a pre-tokenizer fits the tokens of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenFit {
    /// The names in `tokenizer.ggml.pre` that have these rules.
    pub names: Vec<&'static str>,
    /// The number of tokens that it splits in every context.
    pub cut: usize,
    /// The first of these tokens.
    pub first: Option<u32>,
}

/// The pre-tokenizer of a vocabulary, and one that fits its tokens better.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VocabularyFit {
    /// The number of tokens that were examined: those of several ASCII characters that merges
    /// yield.
    pub tokens: usize,
    /// The fit of the pre-tokenizer of the vocabulary.
    pub own: TokenFit,
    /// The fit of a pre-tokenizer that fits much better. Of several, the one that splits an
    /// ordinary text into the most words: any pre-tokenizer that splits less often fits as well.
    pub better: Option<TokenFit>,
}

/// The text before and after a token in which [`fit`] tries it.
const FIT_CONTEXTS: [(&str, &str); 12] = [
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

/// A text that pre-tokenizers split differently.
const SAMPLE: &str = "It's 1234567 o'clock, they'LL say:\n\n\tif (x_1 >= 3.14) { return -1; }  // \
    CamelCase's\r\n   Größe ÉTÉ 東京は12月です。 한국어 русский ١٢٣ e\u{301}te\u{301} 🦙🦙 a--b... \
    http://a.b/c?d=e&f#g   \n";

/// The fewest tokens that the pre-tokenizer of a vocabulary must split before another one is
/// considered.
const MIN_SPLIT: usize = 64;
/// The minimum number of split tokens per thousand tokens.
const MIN_SPLIT_PER_THOUSAND: usize = 2;
/// The factor by which a better pre-tokenizer splits fewer tokens.
const BETTER_FACTOR: usize = 8;

impl Tokenizer {
    /// Returns how well the pre-tokenizer fits the tokens, and another one that fits much better.
    /// Returns `None` if the vocabulary is not byte-level BPE, or has few tokens.
    ///
    /// Merges are learned within words, so that no token crosses a position at which the
    /// pre-tokenizer of the training splits. A wrong pre-tokenizer splits many tokens. The converse
    /// does not hold: rules that split less often than the right ones fit as well.
    pub fn pre_tokenizer_fit(&self) -> Option<VocabularyFit> {
        let own = self.vocabulary().pre?;
        let Model::Bpe(model) = self.model() else { return None };
        if !model.is_plain() || !model.is_byte_level() {
            return None;
        }
        let tokens = self.merged_tokens();
        if tokens.len() < MIN_SPLIT {
            return None;
        }
        let own_fit = fit(own, &tokens)?;
        let least = MIN_SPLIT.max(tokens.len() / 1000 * MIN_SPLIT_PER_THOUSAND);
        let mut better: Option<(usize, TokenFit)> = None;
        if own_fit.cut >= least {
            for pre in pre::all_rules().filter(|pre| !pre.raw && pre.rules != own.rules) {
                let Some(found) = fit(pre, &tokens) else { continue };
                let words = words(pre)?;
                let is_better = better.as_ref().is_none_or(|(most, _)| words > *most);
                if found.cut.saturating_mul(BETTER_FACTOR) <= own_fit.cut && is_better {
                    better = Some((words, found));
                }
            }
        }
        let better = better.map(|(_, fit)| fit);
        Some(VocabularyFit { tokens: tokens.len(), own: own_fit, better })
    }

    /// Returns the tokens of several ASCII characters that merges yield, and their text. For other
    /// characters, authors change expressions after the merges were learned: Qwen 2's splits its
    /// own tokens of full-width digits and combining marks.
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
                && model.is_reachable(vocabulary, text, &mut work)
            {
                tokens.push((id, piece));
            }
        }
        tokens
    }
}

/// Returns how well a pre-tokenizer fits the tokens.
fn fit(pre: &PreTokenizer, tokens: &[(u32, &str)]) -> Option<TokenFit> {
    let words = Words::new(pre)?;
    let (mut memos, mut text) = (Vec::new(), Vec::new());
    let mut is_cut = |piece: &str| {
        !FIT_CONTEXTS.iter().any(|(before, after)| {
            text.clear();
            for part in [before, piece, after] {
                text.extend_from_slice(part.as_bytes());
            }
            one_word_contains(&words, &text, before.len(), before.len() + piece.len(), &mut memos)
        })
    };
    let mut cut = tokens.iter().filter(|(_, piece)| is_cut(piece)).map(|(id, _)| *id);
    let first = cut.next();
    let cut = cut.count() + usize::from(first.is_some());
    let mut names: Vec<&str> =
        pre::names().filter(|name| pre::rules(name) == Some(pre.rules)).collect();
    // The name of the rules is the best known, so it comes first.
    names.sort_by_key(|name| *name != pre.rules);
    Some(TokenFit { names, cut, first })
}

/// Returns `true` if one word contains a range of a text.
fn one_word_contains(
    words: &Words,
    text: &[u8],
    from: usize,
    to: usize,
    memos: &mut Vec<Memo>,
) -> bool {
    let mut has = false;
    words.cut(text, memos, &mut |start, end| has |= start <= from && to <= end);
    has
}

/// Returns the number of words of the sample.
fn words(pre: &PreTokenizer) -> Option<usize> {
    let mut count = 0;
    Words::new(pre)?.cut(SAMPLE.as_bytes(), &mut Vec::new(), &mut |_, _| count += 1);
    Some(count)
}

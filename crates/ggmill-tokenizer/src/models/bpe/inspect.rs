//! Inspection of BPE: the merges of a word step by step, and the symbols that merges can produce.

use super::merges::{Applied, NONE, Work};
use super::{Bpe, Fragment, Normal, Origin, alphabet};
use crate::explain::{ExplainedMerge, ExplainedPass, ExplainedWord, MergeOrder};
use crate::pre::Words;
use crate::tokenizer::Piece;
use crate::unicode;
use crate::vocabulary::{Dialect, Vocabulary};

impl Bpe {
    /// Returns `true` for BPE without the rules of a dialect.
    pub(crate) fn is_plain(&self) -> bool {
        self.dialect == Dialect::Plain
    }

    /// Returns `true` for a byte-level vocabulary.
    pub(crate) fn is_byte_level(&self) -> bool {
        self.bytes.is_some()
    }

    /// Returns `true` if a word that is a token is not merged.
    pub(crate) fn ignores_merges(&self) -> bool {
        self.ignore_merges
    }

    /// Returns the bytes that encoding drops, since no token represents them. Bytes that never
    /// occur in UTF-8 are omitted.
    pub(crate) fn lost_bytes(&self, vocabulary: &Vocabulary) -> Vec<u8> {
        let is_text = |byte: &u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        let is_lost = |byte: &u8| match &self.bytes {
            // Merges can produce a token from a character that is no token.
            Some(_) => {
                let character = alphabet::character(*byte);
                vocabulary.id(character.as_bytes()).is_none() && {
                    let fallback = |part: &u8| self.fallback.get(usize::from(*part)).copied();
                    character.as_bytes().iter().all(|part| fallback(part) == Some(NONE))
                }
            }
            None => self.fallback.get(usize::from(*byte)).copied() == Some(NONE),
        };
        (0..=u8::MAX).filter(|byte| is_text(byte) && is_lost(byte)).collect()
    }

    /// Returns `true` if merging the characters of a string yields the string as one symbol. Only
    /// then does some text yield it: the merges within a part of a word are those of the part on
    /// its own, as long as no merge crosses its ends.
    pub(crate) fn is_reachable(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        work: &mut Work,
    ) -> bool {
        work.symbols.clear();
        work.starts.clear();
        let mut place = 0;
        while let Some(&first) = text.get(place) {
            let end = place.saturating_add(unicode::length_by_first(first)).min(text.len());
            let character = text.get(place..end).unwrap_or_default();
            let symbol = self.merges.known(vocabulary, character).unwrap_or(NONE);
            let is_first = self.bytes.as_ref().is_none_or(|bytes| bytes.contains(&symbol));
            if symbol == NONE || !is_first {
                return false;
            }
            work.symbols.push(symbol);
            work.starts.push(u32::try_from(place).unwrap_or(u32::MAX));
            place = end;
        }
        self.merges.merge(work);
        let whole = self.merges.known(vocabulary, text);
        matches!(&*work.symbols, [symbol] if Some(*symbol) == whole)
    }

    /// Returns the rank and product of each merge whose product is not reachable, by rank.
    pub(crate) fn idle_merges(&self, vocabulary: &Vocabulary) -> Vec<(u32, Vec<u8>)> {
        let mut products: Vec<(u32, u32)> =
            self.merges.products().map(|(rank, product)| (product, rank)).collect();
        products.sort_unstable();
        let mut work = Work::default();
        let mut idle = Vec::new();
        for same in products.chunk_by(|one, other| one.0 == other.0) {
            let Some(&(product, _)) = same.first() else { continue };
            let text = self.merges.text(vocabulary, product).unwrap_or_default();
            if !self.is_reachable(vocabulary, text, &mut work) {
                idle.extend(same.iter().map(|&(_, rank)| (rank, text.to_owned())));
            }
        }
        idle.sort_unstable();
        idle
    }

    /// Returns the text that is pre-tokenized, the passes of the pre-tokenizer, and the words.
    pub(crate) fn explain(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
    ) -> (Vec<u8>, Vec<ExplainedPass>, Vec<ExplainedWord>) {
        let mut normal = Normal::default();
        normal.rewrite(fragment.text, self.escape, true);
        let Normal { text, origins } = normal;
        let rules = vocabulary.pre.map(|pre| &*pre.passes).unwrap_or_default();
        let passes = Words::passes(rules, &text).unwrap_or_default();
        // Positions of text that is not rewritten are its own, as in `encode`.
        let is_same = !self.escape && std::str::from_utf8(fragment.text).is_ok();
        let origin = Origin { start: fragment.start, places: (!is_same).then_some(&origins) };
        let mut words = Vec::new();
        self.words.cut(&text, &mut Vec::new(), &mut |start, end| {
            let word = text.get(start..end).unwrap_or_default();
            let mut pieces = Vec::new();
            let mut each = |id, from: usize, to: usize| {
                let (start, end) = (origin.of(start + from), origin.of(start + to));
                pieces.push(Piece { id, start, end });
            };
            let (mut memory, mut encoded) = (Work::default(), Vec::new());
            self.merge_word(vocabulary, word, &mut memory, &mut encoded, &mut each);
            let is_whole = self.whole(vocabulary, word, &mut encoded).is_some();
            let merges = if is_whole { Vec::new() } else { self.merges_of(vocabulary, word) };
            words.push(ExplainedWord { text: word.to_owned(), is_whole, merges, pieces });
        });
        (text, passes, words)
    }

    /// Returns the merges of a word, in order.
    fn merges_of(&self, vocabulary: &Vocabulary, word: &[u8]) -> Vec<ExplainedMerge> {
        // In the byte-level alphabet, a character represents a byte.
        let length = |symbol| {
            let text = self.merges.text(vocabulary, symbol).unwrap_or_default();
            let is_first = |byte: &&u8| self.bytes.is_none() || **byte & 0xC0 != 0x80;
            text.iter().filter(is_first).count()
        };
        let mut memory = Work::default();
        self.symbols(vocabulary, word, &mut memory);
        let mut merges = Vec::new();
        self.merges.merge_by_steps(&mut memory, &mut |Applied { rank, left, right, start }| {
            let start = start as usize;
            let middle = start.saturating_add(length(left));
            let end = middle.saturating_add(length(right));
            merges.push(ExplainedMerge { start, middle, end, order: MergeOrder::Rank(rank) });
        });
        merges
    }
}

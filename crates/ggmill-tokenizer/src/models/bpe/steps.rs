//! Byte pairs, step by step.

use super::merges::{Applied, Work};
use super::{Bpe, Fragment, Normal, Origin};
use crate::explained::{ExplainedMerge, ExplainedPass, ExplainedWord, MergeOrder};
use crate::pre::Words;
use crate::sink::Piece;
use crate::vocabulary::Vocabulary;

impl Bpe {
    /// The text as it is cut, the passes that cut it, and the words.
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
        // As tokens have their ranges in encoding: text that stays as it is has its own places.
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

    /// The merges of a word, in order.
    fn merges_of(&self, vocabulary: &Vocabulary, word: &[u8]) -> Vec<ExplainedMerge> {
        // In the alphabet of bytes a character is a byte.
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

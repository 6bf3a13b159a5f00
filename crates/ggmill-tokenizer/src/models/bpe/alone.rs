//! The result of merging a string on its own.
//!
//! A symbol comes up in some text just if merging its own characters gives it: merges within a part
//! of a word whose ends stay ends are those of the part alone.

use super::merges::{NONE, Work};
use super::{Bpe, alphabet};
use crate::unicode;
use crate::vocabulary::{Dialect, Vocabulary};

impl Bpe {
    /// Whether text is merged as it is cut, with nothing special about it.
    pub(crate) fn is_plain(&self) -> bool {
        self.dialect == Dialect::Plain
    }

    /// Whether text is merged in the alphabet of bytes.
    pub(crate) fn is_of_bytes(&self) -> bool {
        self.bytes.is_some()
    }

    /// Whether a word that is a token is that token, whatever merges say.
    pub(crate) fn takes_whole_words(&self) -> bool {
        self.ignore_merges
    }

    /// The bytes of text that are left out: nothing stands for them. Bytes that no UTF-8 has are not
    /// among them.
    pub(crate) fn lost_bytes(&self, vocabulary: &Vocabulary) -> Vec<u8> {
        let is_text = |byte: &u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        let is_lost = |byte: &u8| match &self.bytes {
            // Merges can make a token of a character that has none.
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

    /// Whether merging the characters of a string gives this string as one symbol.
    pub(crate) fn comes_up(&self, vocabulary: &Vocabulary, text: &[u8], work: &mut Work) -> bool {
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

    /// The merges whose product never comes up, each with its rank and what it would make, by rank.
    pub(crate) fn idle_merges(&self, vocabulary: &Vocabulary) -> Vec<(u32, Vec<u8>)> {
        let mut products: Vec<(u32, u32)> =
            self.merges.products().map(|(rank, product)| (product, rank)).collect();
        products.sort_unstable();
        let mut work = Work::default();
        let mut idle = Vec::new();
        for same in products.chunk_by(|one, other| one.0 == other.0) {
            let Some(&(product, _)) = same.first() else { continue };
            let text = self.merges.text(vocabulary, product).unwrap_or_default();
            if !self.comes_up(vocabulary, text, &mut work) {
                idle.extend(same.iter().map(|&(_, rank)| (rank, text.to_owned())));
            }
        }
        idle.sort_unstable();
        idle
    }
}

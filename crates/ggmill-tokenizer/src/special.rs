//! Special tokens, which are found in a text before it is tokenized and split it into fragments.
//!
//! llama.cpp searches one special token after the other, the longest first, and splits every
//! fragment at every occurrence. One pass gives the same result: an automaton finds all
//! occurrences, overlapping ones included, and each is taken in the order of length, then of
//! position, unless its range is already taken.

use std::ops::Range;

use crate::buffers::bound;
use crate::error::{Error, ErrorKind};
use crate::occurrences::Occurrences;
use crate::vocabulary::{Attributes, Vocabulary};

/// Finds special tokens.
#[derive(Debug)]
pub(crate) struct Special {
    /// Finds all special tokens.
    all: Finder,
    /// Finds only user-defined tokens.
    user_defined: Finder,
}

/// Finds a set of special tokens.
#[derive(Debug, Default)]
struct Finder {
    /// The tokens in the order in which occurrences are taken.
    tokens: Vec<Token>,
    occurrences: Option<Occurrences>,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    id: u32,
    lstrip: bool,
    rstrip: bool,
    /// It is recognized only in trusted text.
    hidden: bool,
    /// The length of its text in bytes.
    length: usize,
}

/// A special token in a text, with the whitespace it consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hit {
    id: u32,
    /// The range of its text.
    start: usize,
    end: usize,
    /// The range with the whitespace.
    from: usize,
    to: usize,
}

/// Scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The occurrences: index of the token, start, end.
    found: Vec<(u32, usize, usize)>,
    /// A bit for each byte of the text.
    taken: Vec<u64>,
    hits: Vec<Hit>,
}

impl Scratch {
    /// Frees buffers that a long text enlarged.
    pub(crate) fn bound(&mut self) {
        bound(&mut self.found);
        bound(&mut self.taken);
        bound(&mut self.hits);
    }
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The text from one position to another.
    Text(usize, usize),
    /// A special token and the range of its text.
    Token(u32, usize, usize),
}

/// The most occurrences of special tokens in a text beyond one for each byte, overlapping ones
/// included.
const MAX_HITS: usize = 1 << 20;

/// Returns C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}

/// Returns `true` if one of the ranges, which are in ascending order, contains another.
fn covers(ranges: &[Range<usize>], (start, end): (usize, usize)) -> bool {
    let after = ranges.partition_point(|range| range.start <= start);
    let range = after.checked_sub(1).and_then(|index| ranges.get(index));
    range.is_some_and(|range| end <= range.end)
}

impl Special {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Result<Self, Error> {
        let hidden = Attributes::CONTROL | Attributes::UNKNOWN;
        let order = &vocabulary.special_order;
        let visible = |id: &u32| !vocabulary.attributes(*id).intersects(hidden);
        Ok(Self {
            all: Finder::new(vocabulary, order.iter().copied())?,
            user_defined: Finder::new(vocabulary, order.iter().copied().filter(visible))?,
        })
    }

    /// Calls `each` with the parts of a text in order. Text parts are not empty. Fails if there are
    /// many more overlapping special tokens than bytes.
    pub(crate) fn parts(
        &self,
        text: &[u8],
        parse_special: bool,
        trusted: Option<&[Range<usize>]>,
        scratch: &mut Scratch,
        mut each: impl FnMut(Part),
    ) -> Result<(), Error> {
        let finder = if parse_special { &self.all } else { &self.user_defined };
        finder.find(text, trusted, scratch)?;
        let mut done = 0;
        for hit in &scratch.hits {
            if done < hit.from {
                each(Part::Text(done, hit.from));
            }
            each(Part::Token(hit.id, hit.start, hit.end));
            done = hit.to;
        }
        if done < text.len() {
            each(Part::Text(done, text.len()));
        }
        Ok(())
    }
}

impl Finder {
    fn new(vocabulary: &Vocabulary, ids: impl Iterator<Item = u32>) -> Result<Self, Error> {
        let mut finder = Self::default();
        let mut texts = Vec::new();
        for id in ids {
            let attributes = vocabulary.attributes(id);
            let text = vocabulary.shown(id).unwrap_or_default();
            finder.tokens.push(Token {
                id,
                length: text.len(),
                lstrip: attributes.contains(Attributes::LSTRIP),
                rstrip: attributes.contains(Attributes::RSTRIP),
                hidden: attributes.intersects(Attributes::CONTROL | Attributes::UNKNOWN),
            });
            texts.push(text);
        }
        if texts.is_empty() {
            return Ok(finder);
        }
        // No two tokens have the same text.
        let occurrences = Occurrences::new(texts.into_iter().zip(0..)).ok_or_else(|| {
            Error::new(ErrorKind::Limit, "not enough memory for the special tokens")
        })?;
        finder.occurrences = Some(occurrences);
        Ok(finder)
    }

    /// Writes the special tokens of a text to `scratch.hits`, in the order of their positions.
    fn find(
        &self,
        text: &[u8],
        trusted: Option<&[Range<usize>]>,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        scratch.hits.clear();
        let Some(occurrences) = &self.occurrences else { return Ok(()) };
        scratch.found.clear();
        let most = MAX_HITS.saturating_add(text.len());
        let mut count = 0;
        occurrences.find(text, |index, end| {
            count += 1;
            if let Some(token) = self.tokens.get(index as usize) {
                let range = (end.saturating_sub(token.length), end);
                let is_read = trusted.is_none_or(|trusted| covers(trusted, range));
                if is_read || !token.hidden {
                    scratch.found.push((index, range.0, range.1));
                }
            }
            count <= most
        });
        if count > most {
            let message = format!("more than {most} special tokens in {} bytes", text.len());
            return Err(Error::new(ErrorKind::Limit, message));
        }
        if scratch.found.is_empty() {
            return Ok(());
        }
        scratch.found.sort_unstable();
        scratch.taken.clear();
        scratch.taken.resize(text.len().div_ceil(64), 0);
        for hit in 0..scratch.found.len() {
            if let Some(&(token, start, end)) = scratch.found.get(hit) {
                self.take(text, token, start, end, scratch);
            }
        }
        scratch.hits.sort_unstable_by_key(|hit| hit.start);
        Ok(())
    }

    /// Takes an occurrence if its range is free. Occurrences taken before are at least as long, so
    /// that one that overlaps it covers its first or last byte.
    fn take(&self, text: &[u8], token: u32, start: usize, end: usize, scratch: &mut Scratch) {
        let Scratch { taken, hits, .. } = scratch;
        let is_taken = |taken: &[u64], place: usize| {
            taken.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
        };
        if is_taken(taken, start) || is_taken(taken, end.saturating_sub(1)) {
            return;
        }
        let Some(token) = self.tokens.get(token as usize) else { return };
        let is_free_space = |taken: &[u64], place: usize| {
            text.get(place).is_some_and(|&byte| is_space(byte)) && !is_taken(taken, place)
        };
        let (mut from, mut to) = (start, end);
        while token.lstrip && from > 0 && is_free_space(taken, from.saturating_sub(1)) {
            from = from.saturating_sub(1);
        }
        while token.rstrip && is_free_space(taken, to) {
            to = to.saturating_add(1);
        }
        for place in from..to {
            if let Some(word) = taken.get_mut(place / 64) {
                *word |= 1 << (place % 64);
            }
        }
        hits.push(Hit { id: token.id, start, end, from, to });
    }
}

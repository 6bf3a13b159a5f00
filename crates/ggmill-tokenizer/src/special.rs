//! The text of special tokens is found before all else and cuts the rest into fragments.
//!
//! The reference takes the special tokens one by one, the longest first, and cuts every fragment at
//! every occurrence. The same result in one pass: all occurrences that overlap or not are found at
//! once, and in the order of length, then of position, each is taken whose place is still free.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::attributes::Attributes;
use crate::error::{Error, ErrorKind};
use crate::memory::bound;
use crate::vocabulary::Vocabulary;

/// The automata that find special tokens.
#[derive(Debug)]
pub(crate) struct Special {
    /// With control tokens.
    all: Finder,
    /// The user-defined tokens alone.
    user_defined: Finder,
}

/// Finds some of the special tokens.
#[derive(Debug, Default)]
struct Finder {
    /// In the order they are taken.
    tokens: Vec<Token>,
    automaton: Option<AhoCorasick>,
    /// The bytes of the longest.
    longest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    id: u32,
    lstrip: bool,
    rstrip: bool,
    /// It is found in trusted text only.
    hidden: bool,
}

/// A special token in a text, with the whitespace it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hit {
    id: u32,
    /// The text of the token.
    start: usize,
    end: usize,
    /// With the whitespace.
    from: usize,
    to: usize,
}

/// Memory that calls use one after the other.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Numbers of tokens and where they begin and end.
    found: Vec<(u32, usize, usize)>,
    taken: Vec<u64>,
    hits: Vec<Hit>,
}

impl Scratch {
    /// Gives back what one long text made large.
    pub(crate) fn bound(&mut self) {
        bound(&mut self.found);
        bound(&mut self.taken);
        bound(&mut self.hits);
    }
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text from one position to another.
    Text(usize, usize),
    /// A special token and the positions of its text.
    Token(u32, usize, usize),
}

/// The most occurrences of special tokens in a text, those in each other included, besides one for
/// each byte.
const MAX_HITS: usize = 1 << 20;

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}

/// Whether one of the ranges, which are in order, has all of a place.
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

    /// The parts of a text, in order. Text is never empty. Fails where special tokens lie in each
    /// other so often that there are many more than bytes.
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
            finder.tokens.push(Token {
                id,
                lstrip: attributes.contains(Attributes::LSTRIP),
                rstrip: attributes.contains(Attributes::RSTRIP),
                hidden: attributes.intersects(Attributes::CONTROL | Attributes::UNKNOWN),
            });
            texts.push(vocabulary.shown(id).unwrap_or_default());
        }
        if texts.is_empty() {
            return Ok(finder);
        }
        finder.longest = texts.iter().map(|text| text.len()).max().unwrap_or_default();
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&texts);
        finder.automaton = Some(automaton.map_err(|error| {
            Error::new(ErrorKind::Limit, format!("too many special tokens: {error}"))
        })?);
        Ok(finder)
    }

    /// Leaves the tokens of a text in `scratch.hits`, in the order of their positions.
    fn find(
        &self,
        text: &[u8],
        trusted: Option<&[Range<usize>]>,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        scratch.hits.clear();
        let Some(automaton) = &self.automaton else { return Ok(()) };
        // Most texts have none, and the search for the one that ends first is the fast one.
        let Some(first) = automaton.find(text) else { return Ok(()) };
        let begin = first.end().saturating_sub(self.longest);
        scratch.found.clear();
        let rest = text.get(begin..).unwrap_or_default();
        let most = MAX_HITS.saturating_add(text.len());
        for hit in automaton.find_overlapping_iter(rest) {
            if scratch.found.len() >= most {
                let message = format!("more than {most} special tokens in {} bytes", text.len());
                return Err(Error::new(ErrorKind::Limit, message));
            }
            let place = (hit.start().saturating_add(begin), hit.end().saturating_add(begin));
            let number = hit.pattern().as_usize();
            if trusted.is_some_and(|trusted| !covers(trusted, place))
                && self.tokens.get(number).is_some_and(|token| token.hidden)
            {
                continue;
            }
            scratch.found.push((hit.pattern().as_u32(), place.0, place.1));
        }
        scratch.found.sort_unstable();
        scratch.taken.clear();
        scratch.taken.resize(text.len().div_ceil(64), 0);
        for place in 0..scratch.found.len() {
            if let Some(&(number, start, end)) = scratch.found.get(place) {
                self.take(text, number, start, end, scratch);
            }
        }
        scratch.hits.sort_unstable_by_key(|hit| hit.start);
        Ok(())
    }

    /// Takes an occurrence if its place is free. Those taken before are at least as long, so that they
    /// cover its first or last byte if any.
    fn take(&self, text: &[u8], number: u32, start: usize, end: usize, scratch: &mut Scratch) {
        let Scratch { taken, hits, .. } = scratch;
        let is_taken = |taken: &[u64], place: usize| {
            taken.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
        };
        if is_taken(taken, start) || is_taken(taken, end.saturating_sub(1)) {
            return;
        }
        let Some(token) = self.tokens.get(number as usize) else { return };
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

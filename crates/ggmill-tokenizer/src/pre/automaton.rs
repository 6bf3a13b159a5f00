//! Expressions as automata: every character is looked at once, and nothing is tried twice.
//!
//! A state is the list of places in a program that a backtracking matcher would still try, in the
//! order it would. The first match of such a matcher is thus found without going back. Transitions
//! are taken on the class of the next character, or on the end of the text, which decides what looks
//! ahead; that the program had matched before this character is part of the transition.

use std::collections::HashMap;

use super::expression::{Program, Step};
use super::set::Set;
use crate::unicode::{CODE_POINTS, Table};

/// An automaton that finds the match a backtracking matcher would.
#[derive(Debug)]
pub(super) struct Automaton {
    /// The class of every character.
    classes: Table<u8>,
    /// For every state a row: for every ASCII character, then for every class, the place of the next
    /// state's row, and in the lowest bit whether the text before the character is a match.
    transitions: Vec<u32>,
    start: u32,
    end: u8,
    /// For every byte, whether a match may begin with it.
    begins: [bool; 256],
    /// What is known of words of ASCII letters.
    plain: Option<Plain>,
}

/// Words of ASCII letters after at most one space: most words, which need no automaton.
#[derive(Debug)]
struct Plain {
    /// A large letter is like a small one; if not, only the first of a word may be large.
    large: bool,
    /// The first letter may be large.
    first_large: bool,
    /// A word may begin with a space.
    space: bool,
    /// For every ASCII character, whether a word ends before it.
    ends: [bool; 128],
}

/// The state in which no match is possible any more.
const DEAD: u32 = 0;
/// That the text so far is a match, in a transition.
const MATCHED: u32 = 1;
/// The ASCII characters, which come first in a row.
const ASCII: usize = 128;
/// Steps without a match after which states are noted.
const PATIENCE: usize = 32;
/// No match.
const NOWHERE: usize = usize::MAX;

/// States at positions from which no match came, so that no part of a text is looked at again and
/// again in vain.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    start: usize,
    states: Vec<u32>,
    next: Vec<u32>,
}

impl Memo {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.states.clear();
    }
}

impl Automaton {
    /// The automaton of an expression. `None` where it is not in the syntax, or has too many states.
    pub(super) fn new(expression: &str) -> Option<Self> {
        let program = Program::new(expression)?;
        let alphabet = Alphabet::new(&program.classes)?;
        // Even, as the lowest bit of a place is taken.
        let row = ASCII.checked_add(alphabet.size)?.checked_next_multiple_of(2)?;
        let end = u8::try_from(alphabet.size.checked_sub(1)?).ok()?;
        let classes = Table::new(alphabet.ranges.iter().copied());
        let ascii: [u8; ASCII] =
            std::array::from_fn(|point| classes.get(u32::try_from(point).unwrap_or(0)));
        let mut builder = Builder {
            program: &program,
            alphabet: &alphabet,
            seen: vec![0; program.steps.len()],
            mark: 0,
            known: HashMap::new(),
            lists: Vec::new(),
        };
        builder.state(Vec::new())?;
        builder.state(vec![0])?;
        let mut transitions = Vec::new();
        let mut state = 0;
        while state < builder.lists.len() {
            let list = builder.lists.get(state)?.clone();
            let mut by_class = Vec::with_capacity(alphabet.size);
            for symbol in 0..alphabet.size {
                let (next, matched) = builder.step(&list, symbol)?;
                let next = u32::try_from(next.checked_mul(row)?).ok()?;
                by_class.push(next | if matched { MATCHED } else { 0 });
            }
            let of = |class: &u8| by_class.get(usize::from(*class)).copied().unwrap_or(DEAD);
            transitions.extend(ascii.iter().map(of));
            transitions.extend_from_slice(&by_class);
            state += 1;
            transitions.resize(state.checked_mul(row)?, DEAD);
        }
        // After the row of the dead state.
        let start = u32::try_from(row).ok()?;
        let begins = std::array::from_fn(|byte| {
            let next = transitions.get(row.wrapping_add(byte)).copied().unwrap_or(DEAD);
            byte >= ASCII || next & !MATCHED != DEAD
        });
        let mut automaton = Self { classes, transitions, start, end, begins, plain: None };
        automaton.plain = automaton.plain_words();
        Some(automaton)
    }

    /// The transition from a state on an ASCII character.
    #[inline]
    fn on(&self, state: u32, byte: u8) -> u32 {
        self.transitions.get(state as usize + usize::from(byte)).copied().unwrap_or(DEAD)
    }

    /// The transition from a state on the character at a position, and the character's length.
    #[inline]
    fn at(&self, state: u32, text: &[u8], place: usize) -> (u32, usize) {
        let (class, length) = match text.get(place) {
            Some(&byte) if byte < 0x80 => return (self.on(state, byte), 1),
            Some(_) => {
                let (point, length) = super::decode(text, place);
                (self.classes.get(point), length)
            }
            None => (self.end, 0),
        };
        let next = self.transitions.get(state as usize + ASCII + usize::from(class));
        (next.copied().unwrap_or(DEAD), length)
    }

    /// Where all the bytes lead from a state, if to one place.
    fn all_on(&self, state: u32, mut bytes: impl Iterator<Item = u8>) -> Option<u32> {
        let first = self.on(state, bytes.next()?) & !MATCHED;
        bytes.all(|byte| self.on(state, byte) & !MATCHED == first).then_some(first)
    }

    /// What the transitions say of words of ASCII letters.
    fn plain_words(&self) -> Option<Plain> {
        let word = self.on(self.start, b'a') & !MATCHED;
        let stays = |mut bytes: std::ops::RangeInclusive<u8>| {
            bytes.all(|byte| self.on(word, byte) == word | MATCHED)
        };
        if word == DEAD || !stays(b'a'..=b'z') {
            return None;
        }
        let large = stays(b'A'..=b'Z');
        let leads = |state: u32| {
            let small = self.all_on(state, b'a'..=b'z') == Some(word);
            small && (!large || self.all_on(state, b'A'..=b'Z') == Some(word))
        };
        let leads_after_large =
            |state: u32| (b'A'..=b'Z').all(|byte| leads(self.on(state, byte) & !MATCHED));
        let after_space = self.on(self.start, b' ') & !MATCHED;
        let space = after_space != DEAD && leads(after_space);
        let first_large =
            !large && leads_after_large(self.start) && (!space || leads_after_large(after_space));
        let ends = std::array::from_fn(|byte| {
            u8::try_from(byte).is_ok_and(|byte| self.on(word, byte) == DEAD | MATCHED)
        });
        leads(self.start).then_some(Plain { large, first_large, space, ends })
    }

    /// The end of a plain word, if there is one and it is known to end there.
    #[inline]
    fn plain_word(&self, text: &[u8], place: usize) -> Option<usize> {
        let plain = self.plain.as_ref()?;
        let mut start = place;
        if plain.space && text.get(place) == Some(&b' ') {
            start += 1;
        }
        if plain.first_large && text.get(start).is_some_and(u8::is_ascii_uppercase) {
            start += 1;
        }
        let run = letters(text, start, plain.large);
        let end = start + run;
        let next = usize::from(*text.get(end)?);
        (run > 0 && plain.ends.get(next) == Some(&true)).then_some(end)
    }

    /// Where the match that begins here ends.
    #[inline]
    fn match_at(&self, text: &[u8], start: usize, memo: &mut Memo) -> Option<usize> {
        let mut state = self.start;
        let mut found = NOWHERE;
        let mut place = start;
        let rest = text.get(start..).unwrap_or_default();
        for &byte in rest.iter().take(PATIENCE) {
            if byte >= 0x80 {
                break;
            }
            let next = self.on(state, byte);
            if next & MATCHED != 0 {
                found = place;
            }
            state = next & !MATCHED;
            if state == DEAD {
                return (found != NOWHERE).then_some(found);
            }
            place += 1;
        }
        let found = (found != NOWHERE).then_some(found);
        self.match_on(text, state, place, found, memo)
    }

    /// The same from another state on, for any characters and the end of the text.
    fn match_on(
        &self,
        text: &[u8],
        mut state: u32,
        mut place: usize,
        mut found: Option<usize>,
        memo: &mut Memo,
    ) -> Option<usize> {
        let mut patience = place.saturating_add(PATIENCE);
        loop {
            let (next, length) = self.at(state, text, place);
            if next & MATCHED != 0 {
                found = Some(place);
                patience = place.saturating_add(PATIENCE);
            }
            state = next & !MATCHED;
            if state == DEAD {
                return found;
            }
            place += length;
            if place > patience {
                return self.patiently(text, state, place, found, memo);
            }
        }
    }

    /// The same for matches that need a long look ahead: it is given up where one in the same state
    /// was in vain before.
    #[cold]
    fn patiently(
        &self,
        text: &[u8],
        mut state: u32,
        mut place: usize,
        mut found: Option<usize>,
        memo: &mut Memo,
    ) -> Option<usize> {
        memo.next.clear();
        let mut from = place;
        loop {
            let known = place.checked_sub(memo.start).and_then(|at| memo.states.get(at));
            if known == Some(&state) {
                return found;
            }
            memo.next.push(state);
            let (next, length) = self.at(state, text, place);
            if next & MATCHED != 0 {
                found = Some(place);
                memo.next.clear();
                from = place.saturating_add(length);
            } else {
                // Positions inside a character are not looked up.
                memo.next.resize(memo.next.len() + length.saturating_sub(1), DEAD);
            }
            state = next & !MATCHED;
            if state == DEAD {
                memo.start = from;
                std::mem::swap(&mut memo.states, &mut memo.next);
                return found;
            }
            place += length;
        }
    }

    /// The first match that begins at a position or after it.
    #[inline]
    pub(super) fn find(
        &self,
        text: &[u8],
        mut place: usize,
        memo: &mut Memo,
    ) -> Option<(usize, usize)> {
        loop {
            if let Some(end) = self.plain_word(text, place) {
                return Some((place, end));
            }
            let rest = text.get(place..).unwrap_or_default();
            let may_begin =
                |byte: &u8| self.begins.get(usize::from(*byte)).copied().unwrap_or(true);
            place += rest.iter().position(may_begin)?;
            if let Some(end) = self.match_at(text, place, memo) {
                return Some((place, end));
            }
            place += super::decode(text, place).1;
        }
    }
}

/// The number of ASCII letters at a position, or of small ones.
#[inline]
fn letters(text: &[u8], place: usize, large: bool) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let fold = if large { 0x20 * EACH } else { 0 };
    let mut run = 0;
    while let Some(bytes) = text.get(place + run..).and_then(|rest| rest.first_chunk::<8>()) {
        // In each byte: at least `a`, and more than `z`, without a carry into the next.
        let word = u64::from_le_bytes(*bytes) | fold;
        let low = word & !HIGH;
        let inside = (low + (0x80 - 0x61) * EACH) & !(low + (0x80 - 0x7B) * EACH) & !word & HIGH;
        let count = (inside ^ HIGH).trailing_zeros() as usize / 8;
        run += count;
        if count < 8 {
            return run;
        }
    }
    let rest = text.get(place + run..).unwrap_or_default();
    let is_letter =
        |byte: &&u8| if large { byte.is_ascii_alphabetic() } else { byte.is_ascii_lowercase() };
    run + rest.iter().take_while(is_letter).count()
}

/// The classes of characters that no class of an expression tells apart.
struct Alphabet {
    /// Where each range of one class begins.
    ranges: Vec<(u32, u8)>,
    /// For each class of characters, which classes of the expression have it.
    members: Vec<Vec<bool>>,
    /// With the end of the text, the last.
    size: usize,
}

impl Alphabet {
    fn new(classes: &[Set]) -> Option<Self> {
        let mut bounds: Vec<u32> = classes.iter().flat_map(Set::bounds).chain([0]).collect();
        bounds.retain(|&bound| bound < CODE_POINTS);
        bounds.sort_unstable();
        bounds.dedup();
        let mut members: Vec<Vec<bool>> = Vec::new();
        let mut ranges = Vec::with_capacity(bounds.len());
        for bound in bounds {
            let row: Vec<bool> = classes.iter().map(|class| class.contains(bound)).collect();
            let number = members.iter().position(|known| *known == row).unwrap_or_else(|| {
                members.push(row);
                members.len() - 1
            });
            ranges.push((bound, u8::try_from(number).ok()?));
        }
        let size = members.len().checked_add(1)?;
        Some(Self { ranges, members, size })
    }
}

struct Builder<'a> {
    program: &'a Program,
    alphabet: &'a Alphabet,
    seen: Vec<u32>,
    mark: u32,
    known: HashMap<Vec<usize>, usize>,
    lists: Vec<Vec<usize>>,
}

/// The most states of an automaton.
const MAX_STATES: usize = 1 << 14;

impl Builder<'_> {
    fn state(&mut self, list: Vec<usize>) -> Option<usize> {
        if let Some(&known) = self.known.get(&list) {
            return Some(known);
        }
        let number = self.lists.len();
        self.known.insert(list.clone(), number);
        self.lists.push(list);
        (number < MAX_STATES).then_some(number)
    }

    /// The state after a character of a class, and whether there is a match before it.
    fn step(&mut self, list: &[usize], symbol: usize) -> Option<(usize, bool)> {
        self.mark += 1;
        let mut next = Vec::new();
        let mut stack = Vec::new();
        let mut matched = false;
        'list: for &first in list {
            stack.push(first);
            while let Some(place) = stack.pop() {
                let seen = self.seen.get_mut(place)?;
                if *seen == self.mark {
                    continue;
                }
                *seen = self.mark;
                match *self.program.steps.get(place)? {
                    Step::Take(class) => {
                        if self.has(symbol, class) {
                            next.push(place + 1);
                        }
                    }
                    Step::Look { class, negated, at_end } => {
                        let is_end = symbol + 1 == self.alphabet.size;
                        let holds =
                            if is_end { at_end } else { self.has(symbol, class) != negated };
                        if holds {
                            stack.push(place + 1);
                        }
                    }
                    Step::Fork(first, second) => stack.extend([second, first]),
                    Step::Jump(to) => stack.push(to),
                    Step::Match => {
                        matched = true;
                        break 'list;
                    }
                }
            }
        }
        Some((self.state(next)?, matched))
    }

    fn has(&self, symbol: usize, class: usize) -> bool {
        let row = self.alphabet.members.get(symbol);
        row.and_then(|row| row.get(class)).copied().unwrap_or_default()
    }
}

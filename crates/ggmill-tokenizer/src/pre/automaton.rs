//! Expressions as automata: one transition for each character, without backtracking.
//!
//! A state is the list of positions in a program that a backtracking matcher would still try, in
//! its order, so that the first match of such a matcher is found without backtracking. A transition
//! is taken on the class of the next character or on the end of the text, which decides lookahead.
//! It also records whether the program had matched before that character.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::expression::{Program, Set, Step};
use super::fast_paths::{BEFORE, BLOCK, Boundaries, Local, Plain, Steps};
use crate::buffers::bound;
use crate::unicode::{CODE_POINTS, Table};

/// An automaton that finds the matches of a backtracking matcher.
#[derive(Debug)]
pub(super) struct Automaton {
    /// The class of every character.
    classes: Table<u8>,
    /// The class of every ASCII character.
    ascii: [u8; ASCII],
    /// A row for each state: for each class, the index of the next state's row. The lowest bit is
    /// set if the text before the character is a match.
    transitions: Vec<u32>,
    start: u32,
    end: u8,
    /// For each byte, whether a match may begin with it.
    begins: [bool; 256],
    /// The apostrophe is the only character of its class.
    has_apostrophe_class: bool,
    /// The fast path for words of ASCII letters.
    plain: Option<Plain>,
    /// The fast path for long texts, derived on first use.
    local: OnceLock<Option<Local>>,
}

/// The state in which no match is possible.
const DEAD: u32 = 0;
/// The bit of a transition for a match before the character.
const MATCHED: u32 = 1;
/// The number of ASCII characters.
const ASCII: usize = 128;
/// The number of bytes after the last match from which on states are recorded in a [`Memo`].
const PATIENCE: usize = 32;
/// The fewest bytes of a text that is split in blocks.
const LONG: usize = 256;
/// No match.
const NOWHERE: usize = usize::MAX;

/// The states at positions from which a search failed, so that no part of a text is searched twice
/// from the same state.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    start: usize,
    states: Vec<u32>,
    next: Vec<u32>,
}

impl Memo {
    /// Frees buffers that a long text enlarged.
    pub(crate) fn bound(&mut self) {
        bound(&mut self.states);
        bound(&mut self.next);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.states.clear();
    }
}

impl Automaton {
    /// Compiles an expression. Returns `None` if it is not in the syntax, or has too many states.
    pub(super) fn new(expression: &str) -> Option<Self> {
        let program = Program::new(expression)?;
        let alphabet = Alphabet::new(&program.classes)?;
        // Even, since the lowest bit of an index is used.
        let row = alphabet.size.checked_next_multiple_of(2)?;
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
            for symbol in 0..alphabet.size {
                let (next, matched) = builder.step(&list, symbol)?;
                let next = u32::try_from(next.checked_mul(row)?).ok()?;
                transitions.push(next | if matched { MATCHED } else { 0 });
            }
            state += 1;
            transitions.resize(state.checked_mul(row)?, DEAD);
        }
        // The row after that of the dead state.
        let start = u32::try_from(row).ok()?;
        let begins = std::array::from_fn(|byte| {
            let class = ascii.get(byte).copied().map(usize::from);
            let next = class.and_then(|class| transitions.get(row.wrapping_add(class)));
            next.is_none_or(|next| next & !MATCHED != DEAD)
        });
        let mut automaton = Self {
            classes,
            ascii,
            transitions,
            start,
            end,
            begins,
            has_apostrophe_class: alphabet.has_own_class('\''),
            plain: None,
            local: OnceLock::new(),
        };
        automaton.plain = Plain::of(&automaton);
        Some(automaton)
    }

    /// Returns the transition from a state on an ASCII character.
    #[inline]
    fn on(&self, state: u32, byte: u8) -> u32 {
        let class = self.ascii.get(usize::from(byte)).copied().unwrap_or_default();
        self.of_class(state, class)
    }

    #[inline]
    fn of_class(&self, state: u32, class: u8) -> u32 {
        self.transitions.get(state as usize + usize::from(class)).copied().unwrap_or(DEAD)
    }

    /// Returns the transition from a state on the character at a position, and the length of the
    /// character.
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
        (self.of_class(state, class), length)
    }

    /// Returns `true` if a match may begin with a byte.
    #[inline]
    pub(super) fn may_begin(&self, byte: u8) -> bool {
        self.begins.get(usize::from(byte)).copied().unwrap_or(true)
    }

    /// Returns the end of the match that begins at a position.
    #[inline]
    fn match_at(&self, text: &[u8], start: usize, memo: &mut Memo) -> Option<usize> {
        let mut state = self.start;
        let mut found = NOWHERE;
        let mut place = start;
        let mut patience = place.saturating_add(PATIENCE);
        loop {
            let (next, length) = self.at(state, text, place);
            if next & MATCHED != 0 {
                found = place;
                patience = place.saturating_add(PATIENCE);
            }
            let before = state;
            state = next & !MATCHED;
            if state == DEAD {
                return (found != NOWHERE).then_some(found);
            }
            place += length;
            if next == before | MATCHED {
                let end = self.run(text, state, place);
                if end > place {
                    found = previous(text, end);
                    patience = found.saturating_add(PATIENCE);
                    place = end;
                }
            } else if place > patience {
                let found = (found != NOWHERE).then_some(found);
                return self.patiently(text, state, place, found, memo);
            }
        }
    }

    /// Returns the end of the characters that lead from a state to itself with a match before each.
    #[inline]
    fn run(&self, text: &[u8], state: u32, mut place: usize) -> usize {
        let stays = state | MATCHED;
        loop {
            match text.get(place) {
                Some(&byte) if byte < 0x80 => {
                    if self.on(state, byte) != stays {
                        return place;
                    }
                    place += 1;
                }
                Some(_) => {
                    let (next, length) = self.at(state, text, place);
                    if next != stays {
                        return place;
                    }
                    place += length;
                }
                None => return place,
            }
        }
    }

    /// Continues a match that needs long lookahead, and gives up where an earlier search failed
    /// from the same state.
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
                // Positions inside a character are never looked up.
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

    /// Returns `true` if no match crosses a position between these two characters, and every match
    /// that ends there also ends there at the end of a text.
    pub(super) fn parts_between(&self, before: u8, after: u8) -> bool {
        let row = self.start;
        let states = (0..self.transitions.len()).step_by((row as usize).max(1));
        states.filter_map(|state| u32::try_from(state).ok()).all(|state| {
            let next = self.on(state, before) & !MATCHED;
            let (within, at_end) = (self.on(next, after), self.of_class(next, self.end));
            next == DEAD || within == at_end && within & !MATCHED == DEAD
        })
    }

    /// Returns `true` if the first of two characters is a match that ends before the second.
    pub(super) fn ends_between(&self, before: u8, after: u8) -> bool {
        let next = self.on(self.start, before) & !MATCHED;
        next != DEAD && self.on(next, after) == DEAD | MATCHED
    }

    /// Calls `each` with the matches from a position on and the ranges between them, in order.
    #[inline]
    pub(super) fn cut(
        &self,
        text: &[u8],
        from: usize,
        memo: &mut Memo,
        each: &mut impl FnMut(usize, usize),
    ) {
        let mut done = from;
        if text.len().saturating_sub(from) >= LONG {
            let Some(end) = self.piece(text, done, memo, each) else { return };
            let local = self.local.get_or_init(|| Local::of(self));
            match self.cut_blocks(local.as_ref(), text, (from, end), memo, each) {
                Some(end) => done = end,
                None => return,
            }
        }
        if let Some(plain) = &self.plain {
            loop {
                while let Some(end) = plain.word(text, done) {
                    each(done, end);
                    done = end;
                }
                let Some(end) = self.piece(text, done, memo, each) else { return };
                done = end;
            }
        }
        while let Some(end) = self.piece(text, done, memo, each) {
            done = end;
        }
    }

    /// Splits most of a text in blocks, after the words up to `done`. Returns the end of the last
    /// word, or `None` at the end of the text.
    #[inline]
    fn cut_blocks(
        &self,
        local: Option<&Local>,
        text: &[u8],
        (from, mut done): (usize, usize),
        memo: &mut Memo,
        each: &mut impl FnMut(usize, usize),
    ) -> Option<usize> {
        // The first positions have too few characters before them.
        let mut first = from.saturating_add(BEFORE);
        while done.saturating_add(1) < first {
            done = self.piece(text, done, memo, each)?;
        }
        while let Some(Boundaries { begin, unsure }) =
            local.and_then(|it| it.boundaries(text, first))
        {
            let mut open = begin | unsure;
            if unsure == 0 && done < first {
                while open != 0 {
                    let place = first + open.trailing_zeros() as usize;
                    open &= open - 1;
                    each(done, place);
                    done = place;
                }
            }
            while open != 0 {
                let bit = open.trailing_zeros();
                open &= open - 1;
                let place = first + bit as usize;
                if done < place && begin >> bit & 1 != 0 {
                    each(done, place);
                    done = place;
                }
                while done < place {
                    done = self.piece(text, done, memo, each)?;
                }
            }
            first += BLOCK;
        }
        Some(done)
    }

    /// Passes the first match at or after a position, and the text before it, to `each`; or the
    /// rest of the text if there is no match. Returns the end of the match, or `None` at the end of
    /// the text.
    #[inline]
    fn piece(
        &self,
        text: &[u8],
        done: usize,
        memo: &mut Memo,
        each: &mut impl FnMut(usize, usize),
    ) -> Option<usize> {
        let mut place = done;
        loop {
            let rest = text.get(place..).unwrap_or_default();
            let Some(skipped) = rest.iter().position(|&byte| self.may_begin(byte)) else {
                if done < text.len() {
                    each(done, text.len());
                }
                return None;
            };
            place += skipped;
            // At the first position the caller has already tried the fast path.
            let plain = self.plain.as_ref().filter(|_| done < place);
            let plain = plain.and_then(|plain| plain.word(text, place));
            if let Some(end) = plain.or_else(|| self.match_at(text, place, memo)) {
                if done < place {
                    each(done, place);
                }
                each(place, end);
                return Some(end);
            }
            place += super::decode(text, place).1;
        }
    }
}

#[cfg(test)]
impl Automaton {
    /// Returns the result of [`cut`](Self::cut), computed by single transitions.
    pub(super) fn cut_by_steps(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut pieces = Vec::new();
        let (mut done, mut place) = (0, 0);
        while place < text.len() {
            let (mut state, mut at, mut found) = (self.start, place, None);
            while state != DEAD {
                let (next, length) = self.at(state, text, at);
                if next & MATCHED != 0 {
                    found = Some(at);
                }
                state = next & !MATCHED;
                at += length;
            }
            let Some(end) = found else {
                place += super::decode(text, place).1;
                continue;
            };
            if done < place {
                pieces.push((done, place));
            }
            pieces.push((place, end));
            (done, place) = (end, end);
        }
        if done < text.len() {
            pieces.push((done, text.len()));
        }
        pieces
    }
}

impl Steps for Automaton {
    fn start(&self) -> u32 {
        self.start
    }

    fn on_class(&self, state: u32, class: u8) -> (u32, bool) {
        let next = self.of_class(state, class);
        (next & !MATCHED, next & MATCHED != 0)
    }

    fn class(&self, byte: u8) -> u8 {
        self.ascii.get(usize::from(byte)).copied().unwrap_or_default()
    }

    fn classes(&self) -> u8 {
        self.end
    }

    fn has_apostrophe_class(&self) -> bool {
        self.has_apostrophe_class
    }
}

/// Returns the start of the character before a position.
#[inline]
fn previous(text: &[u8], place: usize) -> usize {
    let before = text.get(..place).unwrap_or_default();
    let tails = before.iter().rev().take_while(|&&byte| byte & 0xC0 == 0x80).count();
    place.saturating_sub(tails + 1)
}

/// The equivalence classes of characters under the classes of an expression.
struct Alphabet {
    /// The start and class of each range.
    ranges: Vec<(u32, u8)>,
    /// For each class of characters, which classes of the expression contain it.
    members: Vec<Vec<bool>>,
    /// The number of classes, including the end of the text, which is the last.
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

    /// Returns `true` if a character is the only one of its class.
    fn has_own_class(&self, character: char) -> bool {
        let point = u32::from(character);
        let place = self.ranges.partition_point(|&(first, _)| first < point);
        let range = self.ranges.get(place).filter(|range| range.0 == point);
        let after = self.ranges.get(place + 1).is_some_and(|range| range.0 == point + 1);
        range.is_some_and(|range| {
            after && self.ranges.iter().filter(|other| other.1 == range.1).count() == 1
        })
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

    /// Returns the state after a character of a class, and whether there is a match before it.
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

//! Where words begin, as far as the four characters around a place decide it: two before and two
//! behind. An automaton says so ([`Local::of`]) for every state it may be in before them; other
//! places are left to it. Most of a text of ASCII characters is cut this way, without a branch for
//! each character or word.

use std::collections::{BTreeMap, BTreeSet};

use super::plain::Steps;

/// The bytes whose places are examined together.
pub(super) const BLOCK: usize = 64;
/// The bits of a class, and the characters around a place.
const BITS: usize = 4;
const WINDOW: usize = 4;
/// The characters that are examined before a place: two, and before these for an apostrophe.
pub(super) const BEFORE: usize = 3;
const APOSTROPHE: u8 = b'\'';
const CLASSES: usize = 1 << BITS;
const TABLE: usize = 1 << (BITS * WINDOW);
/// The class of bytes that are not ASCII characters. No place near one is decided.
const FOREIGN: u8 = 0;

/// In a block with more of them, the automaton says everything.
const MAX_FOREIGN: u64 = 8;
/// The bytes that are read at once, and the places that are examined one by one.
const EIGHT: usize = 8;
const HALF: usize = 4;

/// A word begins at the place.
const BEGINS: u8 = 1;
/// More than the four characters decide.
const UNSURE: u8 = 1 << HALF;

/// What the characters around a place say.
#[derive(Debug)]
pub(super) struct Local {
    classes: [u8; 256],
    /// By the classes of the characters, that of the first in the lowest bits.
    table: Box<Table>,
    /// The same where no apostrophe is before the four characters, if that says more: contractions
    /// begin with one, and their last letters are most often something else.
    without: Option<Box<Table>>,
}

type Table = [u8; TABLE];

/// The places of a block, a bit for each: the lowest is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// A word begins there.
    pub(super) begin: u64,
    /// The automaton has to say, of this place and of all before it that nothing is said of.
    pub(super) unsure: u64,
}

impl Local {
    /// What the transitions of an automaton say. `None` where it tells too many characters apart.
    pub(super) fn of(automaton: &impl Steps) -> Option<Self> {
        let columns = columns(automaton);
        let apart = |byte: u8| {
            let own = columns.get(usize::from(automaton.class(byte)));
            columns.iter().position(|column| Some(column) == own).unwrap_or_default()
        };
        // Where contractions tell large letters apart, too, they are rare.
        let by_case = |byte: u8| if byte.is_ascii_uppercase() { usize::MAX } else { apart(byte) };
        let (classes, members) =
            Self::group(automaton, apart).or_else(|| Self::group(automaton, by_case))?;
        let search = Search { automaton, classes: &members };
        let table = |beginnings| {
            let mut table: Box<Table> = vec![UNSURE; TABLE].try_into().ok()?;
            search.fill(&beginnings, &mut Vec::new(), 0, &mut table);
            Some(table)
        };
        let all = table(search.beginnings(|_| true))?;
        let apostrophe = automaton.class(APOSTROPHE);
        let without = if automaton.is_apostrophe_apart() {
            Some(table(search.beginnings(|class| class != apostrophe))?)
        } else {
            None
        };
        Some(Self { classes, table: all, without })
    }

    /// The class of each byte, and for each class, from 1 on, the automaton's classes in it: bytes
    /// are in one class that the same number is given for. `None` for too many classes.
    fn group(
        automaton: &impl Steps,
        number: impl Fn(u8) -> usize,
    ) -> Option<([u8; 256], Vec<Vec<u8>>)> {
        let mut known: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut classes = [FOREIGN; 256];
        for byte in 0..0x80u8 {
            let number = number(byte);
            let place = known.iter().position(|(other, _)| *other == number);
            let place = place.unwrap_or_else(|| {
                known.push((number, Vec::new()));
                known.len() - 1
            });
            if place + 1 >= CLASSES {
                return None;
            }
            classes[usize::from(byte)] = u8::try_from(place + 1).ok()?;
            let class = automaton.class(byte);
            if let Some((_, members)) = known.get_mut(place)
                && !members.contains(&class)
            {
                members.push(class);
            }
        }
        Some((classes, known.into_iter().map(|(_, members)| members).collect()))
    }

    /// What is said of the places in 64 bytes: `text[from..from + 64]`, which at least [`BEFORE`]
    /// bytes come before and eight behind.
    #[inline]
    pub(super) fn places(&self, text: &[u8], from: usize) -> Option<Places> {
        let window = text.get(from.checked_sub(BEFORE)?..)?;
        let before = window.first_chunk::<BLOCK>()?.as_chunks::<EIGHT>().0;
        let window = window.get(1..)?.first_chunk::<{ BLOCK + EIGHT }>()?;
        let (first, rest) = window.as_chunks::<EIGHT>().0.split_first()?;
        if are_foreign(before) {
            return Some(Places { begin: 0, unsure: 1 << (BLOCK - 1) });
        }
        let table = match &self.without {
            Some(without) if !has_apostrophe(before) => without,
            _ => &self.table,
        };
        let (mut begin, mut unsure) = (0, 0);
        let mut these = self.classes(*first);
        for next in rest {
            let next = self.classes(*next);
            let classes = these | next << (EIGHT * BITS);
            let said = said_of(table, classes) | said_of(table, classes >> (HALF * BITS)) << EIGHT;
            let (low, middle, high) = (said, said >> HALF, said >> EIGHT);
            begin = begin >> EIGHT | u64::from(low & 0x0F | middle & 0xF0) << (BLOCK - EIGHT);
            unsure = unsure >> EIGHT | u64::from(middle & 0x0F | high & 0xF0) << (BLOCK - EIGHT);
            these = next;
        }
        Some(Places { begin, unsure })
    }

    /// The classes of eight bytes, the first lowest.
    #[inline]
    fn classes(&self, bytes: [u8; EIGHT]) -> u64 {
        bytes.into_iter().enumerate().fold(0, |classes, (number, byte)| {
            classes | u64::from(self.classes[usize::from(byte)]) << (number * BITS)
        })
    }
}

/// What is said of four places one after the other: a bit of each, whether words begin, and four
/// bits higher what is unsure.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "four classes")]
fn said_of(table: &Table, classes: u64) -> u32 {
    (0..HALF).fold(0, |said, number| {
        let index = (classes >> (number * BITS)) as u16;
        said | u32::from(table[usize::from(index)]) << number
    })
}

const EACH: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * EACH;

/// Whether an apostrophe is among the bytes; sometimes also where none is.
#[inline]
fn has_apostrophe(eights: &[[u8; EIGHT]]) -> bool {
    let others = |eight: &[u8; EIGHT]| {
        let other = u64::from_le_bytes(*eight) ^ (u64::from(APOSTROPHE) * EACH);
        other.wrapping_sub(EACH) & !other & HIGH
    };
    eights.iter().map(others).fold(0, |all, found| all | found) != 0
}

/// Whether more than a few bytes are not ASCII characters.
#[inline]
fn are_foreign(eights: &[[u8; EIGHT]]) -> bool {
    let words = eights.iter().map(|eight| u64::from_le_bytes(*eight) & HIGH);
    if words.clone().fold(0, |all, word| all | word) == 0 {
        return false;
    }
    let sums = words.fold(0u64, |sums, word| sums.wrapping_add(word >> 7));
    sums.wrapping_mul(EACH) >> 56 > MAX_FOREIGN
}

/// A matcher on its way through the four characters. Positions are those between the characters,
/// negative ones before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// In the middle of a match.
    Within {
        state: u32,
        /// Where the match began.
        start: i8,
        /// The last position at which the text was a match.
        found: Option<i8>,
        /// What is before the match is none.
        after_gap: bool,
    },
    /// The place was passed: whether a word begins there.
    Passed(bool),
    Unknown,
}

/// The place that is asked about.
const PLACE: i8 = 2;
/// Some position before the characters.
const EARLIER: i8 = -1;

struct Search<'a, A> {
    automaton: &'a A,
    /// For each class, the automaton's classes in it.
    classes: &'a [Vec<u8>],
}

impl<A: Steps> Search<'_, A> {
    /// Every way to come to the first of the characters, if the one before it may be of these
    /// classes.
    ///
    /// A matcher that goes back before them comes to them again, as one of these.
    fn beginnings(&self, may_be: impl Fn(u8) -> bool) -> BTreeSet<Way> {
        let begin = |after_gap| Way::Within {
            state: self.automaton.start(),
            start: 0,
            found: None,
            after_gap,
        };
        let mut ways = BTreeSet::from([begin(false), begin(true)]);
        let mut earlier = reachable(self.automaton);
        earlier.insert((self.automaton.start(), false));
        for (state, was_found) in earlier {
            for class in (0..self.automaton.classes()).filter(|&class| may_be(class)) {
                let (state, matched) = self.automaton.on_class(state, class);
                let found = (matched || was_found).then_some(EARLIER);
                if state != 0 {
                    ways.insert(Way::Within { state, start: EARLIER, found, after_gap: false });
                }
            }
        }
        ways
    }

    /// Writes what is said of all characters after some: `characters` are their classes.
    fn fill<'s>(
        &'s self,
        ways: &BTreeSet<Way>,
        characters: &mut Vec<&'s [u8]>,
        index: usize,
        table: &mut [u8; TABLE],
    ) {
        if characters.len() == WINDOW {
            table[index % TABLE] = self.said(ways, characters);
            return;
        }
        for (number, members) in self.classes.iter().enumerate() {
            characters.push(members);
            let mut next = BTreeSet::new();
            for &way in ways {
                self.read(way, characters, characters.len() - 1, &mut next);
            }
            let class = (number + 1) << ((characters.len() - 1) * BITS);
            self.fill(&next, characters, index | class, table);
            characters.pop();
        }
    }

    /// Where a way leads on the characters from a position on. One that is read again may be another
    /// of its class: that is more than there is, never less.
    fn read(&self, way: Way, characters: &[&[u8]], from: usize, ways: &mut BTreeSet<Way>) {
        let mut open = vec![(way, from)];
        while let Some((way, at)) = open.pop() {
            let (Way::Within { state, start, found, after_gap }, Some(members), Ok(position)) =
                (way, characters.get(at), i8::try_from(at))
            else {
                ways.insert(way);
                continue;
            };
            for &class in *members {
                let (state, matched) = self.automaton.on_class(state, class);
                let found = if matched { Some(position) } else { found };
                if state != 0 {
                    open.push((Way::Within { state, start, found, after_gap }, at + 1));
                } else if let Some(next) = self.ended(start, found, after_gap) {
                    open.push(next);
                }
            }
        }
    }

    /// What all ways have in common after the characters.
    fn said(&self, ways: &BTreeSet<Way>, characters: &[&[u8]]) -> u8 {
        let mut open: Vec<Way> = ways.iter().copied().collect();
        let mut known: BTreeSet<Way> = ways.clone();
        let mut all = None;
        while let Some(way) = open.pop() {
            let begins = match way {
                Way::Passed(begins) => begins,
                // It is a match, and ends behind the place.
                Way::Within { start, found: Some(end), after_gap, .. } if end > PLACE => {
                    after_gap && start == PLACE
                }
                Way::Within { start, .. } if start > PLACE => false,
                Way::Unknown | Way::Within { start: PLACE, .. } => return UNSURE,
                Way::Within { start, found, after_gap, .. } => {
                    // Either it becomes a match that ends behind the characters, or it comes to
                    // nothing, and what is tried then is seen here.
                    if let Some((way, from)) = self.ended(start, found, after_gap) {
                        let mut next = BTreeSet::new();
                        self.read(way, characters, from, &mut next);
                        open.extend(next.into_iter().filter(|&way| known.insert(way)));
                    }
                    false
                }
            };
            if *all.get_or_insert(begins) != begins {
                return UNSURE;
            }
        }
        match all {
            Some(true) => BEGINS,
            Some(false) => 0,
            None => UNSURE,
        }
    }

    /// What comes after a match, or where there is none, and where. `None` before the characters:
    /// see [`beginnings`](Self::beginnings).
    fn ended(&self, start: i8, found: Option<i8>, after_gap: bool) -> Option<(Way, usize)> {
        let begin = |start, after_gap| {
            let state = self.automaton.start();
            let way = Way::Within { state, start, found: None, after_gap };
            Some((way, usize::try_from(start).ok()?))
        };
        match found {
            None if start == EARLIER => None,
            Some(EARLIER) => None,
            None => begin(start.saturating_add(1), true),
            // No expression of the table matches nothing.
            Some(end) if end == start => Some((Way::Unknown, WINDOW)),
            Some(end) if end == PLACE || after_gap && start == PLACE => {
                Some((Way::Passed(true), WINDOW))
            }
            Some(end) if end > PLACE => Some((Way::Passed(false), WINDOW)),
            Some(end) => begin(end, false),
        }
    }
}

/// The states that characters lead to, with whether the text was a match on the way.
fn reachable(automaton: &impl Steps) -> BTreeSet<(u32, bool)> {
    let mut known = BTreeSet::new();
    let mut open = vec![(automaton.start(), false)];
    while let Some((state, was_found)) = open.pop() {
        for class in 0..automaton.classes() {
            let (next, matched) = automaton.on_class(state, class);
            let next = (next, matched || was_found);
            if next.0 != 0 && known.insert(next) {
                open.push(next);
            }
        }
    }
    known
}

/// For every class of characters, what they lead to from each state: characters with the same
/// column are alike. States that differ in nothing that follows count as one.
fn columns(automaton: &impl Steps) -> Vec<Vec<(usize, bool)>> {
    let mut states: Vec<u32> = reachable(automaton).into_iter().map(|it| it.0).collect();
    states.extend([0, automaton.start()]);
    states.sort_unstable();
    states.dedup();
    let mut kinds: BTreeMap<u32, usize> = states.iter().map(|&state| (state, 0)).collect();
    let mut number = 1;
    loop {
        let leads = |state, class| {
            let (next, matched) = automaton.on_class(state, class);
            (kinds.get(&next).copied().unwrap_or_default(), matched)
        };
        let classes = 0..automaton.classes();
        let mut rows = BTreeMap::new();
        let next: BTreeMap<u32, usize> = states
            .iter()
            .map(|&state| {
                let row: Vec<_> = classes.clone().map(|class| leads(state, class)).collect();
                let count = rows.len();
                (state, *rows.entry((kinds.get(&state), row)).or_insert(count))
            })
            .collect();
        if rows.len() == number {
            let column = |class| states.iter().map(|&state| leads(state, class)).collect();
            return classes.map(column).collect();
        }
        number = rows.len();
        kinds = next;
    }
}

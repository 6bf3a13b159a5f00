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
/// The characters before the place.
const BEFORE: usize = 2;
const CLASSES: usize = 1 << BITS;
const TABLE: usize = 1 << (BITS * WINDOW);
/// The class of bytes that are not ASCII characters. No place near one is decided.
const FOREIGN: u8 = 0;

/// In a block with more of them, the automaton says everything.
const MAX_FOREIGN: usize = 8;

/// A word begins at the place.
const BEGINS: u8 = 1;
/// More than the four characters decide.
const UNSURE: u8 = 2;

/// What the characters around a place say.
#[derive(Debug)]
pub(super) struct Local {
    classes: [u8; 256],
    table: Box<[u8; TABLE]>,
}

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
        let mut table: Box<[u8; TABLE]> = vec![UNSURE; TABLE].try_into().ok()?;
        let search = Search { automaton, classes: &members };
        search.fill(&search.beginnings(), &mut Vec::new(), 0, &mut table);
        Some(Self { classes, table })
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

    /// What is said of the places in 64 bytes: `text[from..from + 64]`, which more than two bytes
    /// come before and at least one behind.
    #[inline]
    pub(super) fn places(&self, text: &[u8], from: usize) -> Option<Places> {
        let first = from.checked_sub(BEFORE)?;
        let window = text.get(first..)?.first_chunk::<{ BLOCK + WINDOW - 1 }>()?;
        if window.iter().filter(|&&byte| byte >= 0x80).count() > MAX_FOREIGN {
            return Some(Places { begin: 0, unsure: 1 << (BLOCK - 1) });
        }
        // Indexes of four classes, by steps that have nothing to wait for.
        let mut classes = [0; BLOCK + WINDOW - 1];
        for (class, &byte) in classes.iter_mut().zip(window) {
            *class = self.classes[usize::from(byte)];
        }
        let mut pairs = [0; BLOCK + 2];
        for (pair, (&first, &second)) in pairs.iter_mut().zip(classes.iter().zip(&classes[1..])) {
            *pair = first << BITS | second;
        }
        let mut indexes = [0; BLOCK];
        for (index, (&first, &second)) in indexes.iter_mut().zip(pairs.iter().zip(&pairs[2..])) {
            *index = u16::from(first) << (2 * BITS) | u16::from(second);
        }
        let mut said = [0; BLOCK];
        for (said, &index) in said.iter_mut().zip(&indexes) {
            *said = self.table[usize::from(index)];
        }
        Some(Places { begin: bits(&said, 0), unsure: bits(&said, 1) })
    }
}

/// A bit of each byte.
#[inline]
fn bits(bytes: &[u8; BLOCK], number: u32) -> u64 {
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    // The product has bit 0 of byte `n` as bit 56 + `n`, and no carry comes to them.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    eights.iter().rev().fold(0, |bits, eight| {
        let eight = u64::from_le_bytes(*eight) >> number & LOWEST;
        bits << 8 | eight.wrapping_mul(GATHER) >> 56
    })
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
    /// Every way to come to the first of the characters.
    ///
    /// A matcher that goes back before them comes to them again, as one of these.
    fn beginnings(&self) -> BTreeSet<Way> {
        let begin = |after_gap| Way::Within {
            state: self.automaton.start(),
            start: 0,
            found: None,
            after_gap,
        };
        let mut ways = BTreeSet::from([begin(false), begin(true)]);
        ways.extend(reachable(self.automaton).into_iter().map(|(state, was_found)| Way::Within {
            state,
            start: EARLIER,
            found: was_found.then_some(EARLIER),
            after_gap: false,
        }));
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
            table[index % TABLE] = said(ways);
            return;
        }
        for (number, members) in self.classes.iter().enumerate() {
            characters.push(members);
            let mut next = BTreeSet::new();
            for &way in ways {
                self.read(way, characters, characters.len() - 1, &mut next);
            }
            self.fill(&next, characters, index << BITS | (number + 1), table);
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

/// What all ways have in common after the characters.
fn said(ways: &BTreeSet<Way>) -> u8 {
    let mut all = ways.iter().map(|way| match *way {
        Way::Passed(begins) => Some(begins),
        Way::Unknown => None,
        Way::Within { start, found, after_gap, .. } => match found {
            // It is a match, and ends behind the place.
            Some(end) if end > PLACE => Some(after_gap && start == PLACE),
            _ if start > PLACE => Some(false),
            _ => None,
        },
    });
    match all.next() {
        Some(Some(first)) if all.all(|other| other == Some(first)) => {
            if first {
                BEGINS
            } else {
                0
            }
        }
        _ => UNSURE,
    }
}

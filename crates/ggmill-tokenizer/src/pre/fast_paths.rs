//! Word boundaries that need no run of the automaton: words of ASCII letters, and positions that
//! the four characters around them decide. Both are derived from the transitions of an automaton,
//! and give its matches.

use std::collections::{BTreeMap, BTreeSet};

/// Matches words of ASCII letters after at most one other character: most words of most texts.
#[derive(Debug)]
pub(super) struct Plain {
    /// The case bit in each of eight bytes, or 0 if words distinguish upper and lower case.
    fold: u64,
    /// The first letter may be upper case, but no other.
    first_upper: bool,
    /// Characters that may precede the letters.
    leads: [bool; 256],
    /// Characters that end a word.
    ends: [bool; 256],
}

/// The value 1 in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;
/// The high bit of each byte.
const HIGH: u64 = 0x80 * EACH;
/// The bytes that [`Plain::word`] examines: a character before the word, an upper-case letter,
/// sixteen letters, and the characters after them.
const PLAIN_WINDOW: usize = 24;

/// The transitions of an automaton.
pub(super) trait Steps {
    /// Returns the first state.
    fn start(&self) -> u32;
    /// Returns the next state, and whether the text before the character is a match. State 0 is
    /// dead.
    fn step(&self, state: u32, byte: u8) -> (u32, bool) {
        self.on_class(state, self.class(byte))
    }
    /// Returns the transition for a class of characters, as [`step`](Self::step) does.
    fn on_class(&self, state: u32, class: u8) -> (u32, bool);
    /// Returns the class of an ASCII character.
    fn class(&self, byte: u8) -> u8;
    /// Returns the number of classes of characters.
    fn classes(&self) -> u8;
    /// Returns `true` if the apostrophe is the only character of its class.
    fn has_apostrophe_class(&self) -> bool;
}

impl Plain {
    /// Derives the matcher from an automaton. Returns `None` if the automaton matches no such
    /// words.
    pub(super) fn of(automaton: &impl Steps) -> Option<Self> {
        let start = automaton.start();
        let next = |state: u32, byte: u8| automaton.step(state, byte).0;
        let word = next(start, b'a');
        let stays = |mut bytes: std::ops::RangeInclusive<u8>| {
            bytes.all(|byte| automaton.step(word, byte) == (word, true))
        };
        if word == 0 || !stays(b'a'..=b'z') {
            return None;
        }
        let any_case = stays(b'A'..=b'Z');
        let leads = |state: u32| {
            let all = |mut bytes: std::ops::RangeInclusive<u8>| {
                bytes.all(|byte| next(state, byte) == word)
            };
            state != 0 && all(b'a'..=b'z') && (!any_case || all(b'A'..=b'Z'))
        };
        if !leads(start) {
            return None;
        }
        let leads_after_upper = |state| (b'A'..=b'Z').all(|byte| leads(next(state, byte)));
        let first_upper = !any_case && leads_after_upper(start);
        let (mut before, mut ends) = ([false; 256], [false; 256]);
        for byte in 0..0x80u8 {
            let after = next(start, byte);
            before[usize::from(byte)] = !byte.is_ascii_alphabetic()
                && leads(after)
                && (!first_upper || leads_after_upper(after));
            ends[usize::from(byte)] = automaton.step(word, byte) == (0, true);
        }
        let fold = if any_case { 0x20 * EACH } else { 0 };
        Some(Self { fold, first_upper, leads: before, ends })
    }

    /// Returns the end of the plain word at a position, or `None` if the automaton has to decide.
    #[inline]
    pub(super) fn word(&self, text: &[u8], place: usize) -> Option<usize> {
        let window = text.get(place..)?.first_chunk::<PLAIN_WINDOW>()?;
        let mut start = usize::from(self.leads[usize::from(window[0])]);
        if self.first_upper {
            start += usize::from(window[start].is_ascii_uppercase());
        }
        let others = |from: usize| {
            let bytes = window[from..].first_chunk().copied().unwrap_or_default();
            self.others(u64::from_le_bytes(bytes))
        };
        let (first, second) = (others(start), others(start + 8));
        let run = if first == 0 { 64 + second.trailing_zeros() } else { first.trailing_zeros() };
        let run = run as usize / 8;
        if run == 0 {
            return None;
        }
        let mut end = place + start + run;
        if run == 16 {
            end += self.letters(text, end);
        }
        let next = usize::from(*text.get(end)?);
        self.ends[next].then_some(end)
    }

    /// Returns the high bit of each of eight bytes that is not a letter.
    #[inline]
    fn others(&self, bytes: u64) -> u64 {
        // For each byte, whether it is at least `a` and not more than `z`, without a carry into the
        // next byte.
        let word = bytes | self.fold;
        let low = word & !HIGH;
        let inside = (low + (0x80 - 0x61) * EACH) & !(low + (0x80 - 0x7B) * EACH) & !word & HIGH;
        inside ^ HIGH
    }

    /// Returns the number of letters at a position.
    #[cold]
    fn letters(&self, text: &[u8], place: usize) -> usize {
        let rest = text.get(place..).unwrap_or_default();
        let fold = if self.fold == 0 { 0 } else { 0x20 };
        rest.iter().take_while(|&&byte| (byte | fold).is_ascii_lowercase()).count()
    }
}

/// The number of positions for which [`Local::boundaries`] returns a result.
pub(super) const BLOCK: usize = 64;
/// The bits of a class.
const BITS: usize = 4;
/// The characters around a position: two before it and two after it.
const WINDOW: usize = 4;
/// The characters that are examined before a position: two, and one before them, which may be an
/// apostrophe.
pub(super) const BEFORE: usize = 3;
const APOSTROPHE: u8 = b'\'';
const CLASSES: usize = 1 << BITS;
const TABLE: usize = 1 << (BITS * WINDOW);
/// The class of bytes that are not ASCII. No position near one is decided.
const FOREIGN: u8 = 0;

/// The most such bytes in a block. In other blocks the automaton decides every position.
const MAX_FOREIGN: u64 = 8;
/// The bytes that are read at once.
const EIGHT: usize = 8;
/// The positions that are looked up for each half of them.
const HALF: usize = 4;

/// A word begins at the position.
const BEGINS: u8 = 1;
/// The four characters do not decide the position.
const UNSURE: u8 = 1 << HALF;

/// Decides word boundaries by a lookup of the classes of the four characters around a position.
/// Most of an ASCII text is split this path, without a branch for each character or word.
#[derive(Debug)]
pub(super) struct Local {
    classes: [u8; 256],
    /// Results by the classes of the characters; the class of the first is in the lowest bits.
    table: Box<Table>,
    /// Results if no apostrophe precedes the four characters. They decide more positions, since the
    /// letters are then not the end of a contraction. `None` if the automaton does not distinguish
    /// apostrophes.
    without: Option<Box<Table>>,
}

type Table = [u8; TABLE];

/// Bit masks of the positions of a block; the lowest bit is the first position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boundaries {
    /// A word begins at the position.
    pub(super) begin: u64,
    /// The automaton has to decide this position, and all positions before it after the last known
    /// one.
    pub(super) unsure: u64,
}

impl Local {
    /// Derives the table from an automaton. Returns `None` if the automaton distinguishes too many
    /// characters.
    pub(super) fn of(automaton: &impl Steps) -> Option<Self> {
        let columns = columns(automaton);
        let by_column = |byte: u8| {
            let own = columns.get(usize::from(automaton.class(byte)));
            columns.iter().position(|column| Some(column) == own).unwrap_or_default()
        };
        // If these are too many classes, upper-case letters become one, since they are rare.
        let by_case =
            |byte: u8| if byte.is_ascii_uppercase() { usize::MAX } else { by_column(byte) };
        let (classes, members) =
            Self::group(automaton, by_column).or_else(|| Self::group(automaton, by_case))?;
        let search = Search { automaton, classes: &members };
        let table = |beginnings| {
            let mut table: Box<Table> = vec![UNSURE; TABLE].try_into().ok()?;
            search.fill(&beginnings, &mut Vec::new(), 0, &mut table);
            Some(table)
        };
        let all = table(search.beginnings(|_| true))?;
        let apostrophe = automaton.class(APOSTROPHE);
        let without = if automaton.has_apostrophe_class() {
            Some(table(search.beginnings(|class| class != apostrophe))?)
        } else {
            None
        };
        Some(Self { classes, table: all, without })
    }

    /// Groups ASCII characters with equal `number` into classes. Returns the class of each byte,
    /// and for each class from 1 on the automaton's classes in it, or `None` for too many classes.
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

    /// Decides the positions `from..from + 64`. The text must have [`BEFORE`] bytes before them and
    /// eight bytes after them.
    #[inline]
    pub(super) fn boundaries(&self, text: &[u8], from: usize) -> Option<Boundaries> {
        let window = text.get(from.checked_sub(BEFORE)?..)?;
        let before = window.first_chunk::<BLOCK>()?.as_chunks::<EIGHT>().0;
        let window = window.get(1..)?.first_chunk::<{ BLOCK + EIGHT }>()?;
        let (first, rest) = window.as_chunks::<EIGHT>().0.split_first()?;
        if are_foreign(before) {
            return Some(Boundaries { begin: 0, unsure: 1 << (BLOCK - 1) });
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
            let found = look_up(table, classes) | look_up(table, classes >> (HALF * BITS)) << EIGHT;
            let (low, middle, high) = (found, found >> HALF, found >> EIGHT);
            begin = begin >> EIGHT | u64::from(low & 0x0F | middle & 0xF0) << (BLOCK - EIGHT);
            unsure = unsure >> EIGHT | u64::from(middle & 0x0F | high & 0xF0) << (BLOCK - EIGHT);
            these = next;
        }
        Some(Boundaries { begin, unsure })
    }

    /// Returns the classes of eight bytes, the first in the lowest bits.
    #[inline]
    fn classes(&self, bytes: [u8; EIGHT]) -> u64 {
        bytes.into_iter().enumerate().fold(0, |classes, (number, byte)| {
            classes | u64::from(self.classes[usize::from(byte)]) << (number * BITS)
        })
    }
}

/// Looks up four consecutive positions. The lowest four bits are set if a word begins, the next
/// four if the result is unsure.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "four classes")]
fn look_up(table: &Table, classes: u64) -> u32 {
    (0..HALF).fold(0, |found, number| {
        let index = (classes >> (number * BITS)) as u16;
        found | u32::from(table[usize::from(index)]) << number
    })
}

/// Returns `true` if an apostrophe is among the bytes. It may return `true` without one.
#[inline]
fn has_apostrophe(eights: &[[u8; EIGHT]]) -> bool {
    let others = |eight: &[u8; EIGHT]| {
        let other = u64::from_le_bytes(*eight) ^ (u64::from(APOSTROPHE) * EACH);
        other.wrapping_sub(EACH) & !other & HIGH
    };
    eights.iter().map(others).fold(0, |all, found| all | found) != 0
}

/// Returns `true` if more than [`MAX_FOREIGN`] bytes are not ASCII.
#[inline]
fn are_foreign(eights: &[[u8; EIGHT]]) -> bool {
    let words = eights.iter().map(|eight| u64::from_le_bytes(*eight) & HIGH);
    if words.clone().fold(0, |all, word| all | word) == 0 {
        return false;
    }
    let sums = words.fold(0u64, |sums, word| sums.wrapping_add(word >> 7));
    sums.wrapping_mul(EACH) >> 56 > MAX_FOREIGN
}

/// The state of a matcher between the four characters. Positions are counted between the
/// characters; negative positions are before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Path {
    /// In the middle of a possible match.
    Within {
        state: u32,
        /// The start of the possible match.
        start: i8,
        /// The last position at which the text was a match.
        found: Option<i8>,
        /// The text before the possible match is not a match.
        after_gap: bool,
    },
    /// The matcher passed [`PLACE`]; a word begins there or not.
    Passed(bool),
    Unknown,
}

/// The position that is decided.
const PLACE: i8 = 2;
/// Any position before the characters.
const EARLIER: i8 = -1;

struct Search<'a, A> {
    automaton: &'a A,
    /// For each class, the classes of the automaton in it.
    classes: &'a [Vec<u8>],
}

impl<A: Steps> Search<'_, A> {
    /// Returns every path that can reach the first of the characters, if the character before it is
    /// in one of these classes.
    ///
    /// A matcher that goes back to a position before the characters reaches them again on one of
    /// these paths.
    fn beginnings(&self, may_be: impl Fn(u8) -> bool) -> BTreeSet<Path> {
        let begin = |after_gap| Path::Within {
            state: self.automaton.start(),
            start: 0,
            found: None,
            after_gap,
        };
        let mut paths = BTreeSet::from([begin(false), begin(true)]);
        let mut earlier = reachable(self.automaton);
        earlier.insert((self.automaton.start(), false));
        for (state, was_found) in earlier {
            for class in (0..self.automaton.classes()).filter(|&class| may_be(class)) {
                let (state, matched) = self.automaton.on_class(state, class);
                let found = (matched || was_found).then_some(EARLIER);
                if state != 0 {
                    paths.insert(Path::Within { state, start: EARLIER, found, after_gap: false });
                }
            }
        }
        paths
    }

    /// Fills the table for all continuations of `characters`, which are the classes of the first
    /// ones.
    fn fill<'s>(
        &'s self,
        paths: &BTreeSet<Path>,
        characters: &mut Vec<&'s [u8]>,
        index: usize,
        table: &mut [u8; TABLE],
    ) {
        if characters.len() == WINDOW {
            table[index % TABLE] = self.decide(paths, characters);
            return;
        }
        for (number, members) in self.classes.iter().enumerate() {
            characters.push(members);
            let mut next = BTreeSet::new();
            for &path in paths {
                self.read(path, characters, characters.len() - 1, &mut next);
            }
            let class = (number + 1) << ((characters.len() - 1) * BITS);
            self.fill(&next, characters, index | class, table);
            characters.pop();
        }
    }

    /// Follows a path over the characters from a position on. A character that is read twice may be
    /// two different members of its class; this adds paths, but loses none.
    fn read(&self, path: Path, characters: &[&[u8]], from: usize, paths: &mut BTreeSet<Path>) {
        let mut open = vec![(path, from)];
        while let Some((path, at)) = open.pop() {
            let (Path::Within { state, start, found, after_gap }, Some(members), Ok(position)) =
                (path, characters.get(at), i8::try_from(at))
            else {
                paths.insert(path);
                continue;
            };
            for &class in *members {
                let (state, matched) = self.automaton.on_class(state, class);
                let found = if matched { Some(position) } else { found };
                if state != 0 {
                    open.push((Path::Within { state, start, found, after_gap }, at + 1));
                } else if let Some(next) = self.ended(start, found, after_gap) {
                    open.push(next);
                }
            }
        }
    }

    /// Returns the result that all paths agree on.
    fn decide(&self, paths: &BTreeSet<Path>, characters: &[&[u8]]) -> u8 {
        let mut open: Vec<Path> = paths.iter().copied().collect();
        let mut known: BTreeSet<Path> = paths.clone();
        let mut all = None;
        while let Some(path) = open.pop() {
            let begins = match path {
                Path::Passed(begins) => begins,
                // A match that ends after the position.
                Path::Within { start, found: Some(end), after_gap, .. } if end > PLACE => {
                    after_gap && start == PLACE
                }
                Path::Within { start, .. } if start > PLACE => false,
                Path::Unknown | Path::Within { start: PLACE, .. } => return UNSURE,
                Path::Within { start, found, after_gap, .. } => {
                    // Either this becomes a match that ends after the characters, or it fails and
                    // the matcher continues from the last match, which is followed here.
                    if let Some((path, from)) = self.ended(start, found, after_gap) {
                        let mut next = BTreeSet::new();
                        self.read(path, characters, from, &mut next);
                        open.extend(next.into_iter().filter(|&path| known.insert(path)));
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

    /// Returns the path after a possible match failed or ended, and its position. Returns `None`
    /// for a position before the characters, since [`beginnings`](Self::beginnings) has those
    /// paths.
    fn ended(&self, start: i8, found: Option<i8>, after_gap: bool) -> Option<(Path, usize)> {
        let begin = |start, after_gap| {
            let state = self.automaton.start();
            let path = Path::Within { state, start, found: None, after_gap };
            Some((path, usize::try_from(start).ok()?))
        };
        match found {
            None if start == EARLIER => None,
            Some(EARLIER) => None,
            None => begin(start.saturating_add(1), true),
            // No expression of the table matches the empty string.
            Some(end) if end == start => Some((Path::Unknown, WINDOW)),
            Some(end) if end == PLACE || after_gap && start == PLACE => {
                Some((Path::Passed(true), WINDOW))
            }
            Some(end) if end > PLACE => Some((Path::Passed(false), WINDOW)),
            Some(end) => begin(end, false),
        }
    }
}

/// Returns the states that characters can reach, and whether a match was found on the path.
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

/// Returns for each class of characters the column of its transitions. Classes with equal columns
/// are equivalent. Equivalent states count as one.
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

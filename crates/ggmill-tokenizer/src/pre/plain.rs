//! Words of ASCII letters after at most one other character: most words of most texts, which need
//! no automaton. An automaton says what they are ([`Plain::of`]), and its matches are the same.

/// What is known of words of ASCII letters.
#[derive(Debug)]
pub(super) struct Plain {
    /// The bits that tell large letters from small ones, in eight bytes; 0 where a large letter is
    /// not like a small one.
    fold: u64,
    /// Only the first letter may be large.
    first_large: bool,
    /// Characters that may come before the letters.
    leads: [bool; 256],
    /// Characters before which a word ends.
    ends: [bool; 256],
}

const EACH: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * EACH;
/// The bytes that are examined: a character before, a large letter, sixteen letters, and what is
/// after them.
const WINDOW: usize = 24;

/// How an automaton goes from state to state, and what its states mean.
pub(super) trait Steps {
    /// The first state.
    fn start(&self) -> u32;
    /// The next state, and whether the text before the character is a match. The state 0 has no
    /// way on.
    fn step(&self, state: u32, byte: u8) -> (u32, bool) {
        self.on_class(state, self.class(byte))
    }
    /// The same by the class of a character.
    fn on_class(&self, state: u32, class: u8) -> (u32, bool);
    /// The class of an ASCII character.
    fn class(&self, byte: u8) -> u8;
    /// The number of classes of characters.
    fn classes(&self) -> u8;
    /// Whether no other character is in the apostrophe's class.
    fn is_apostrophe_apart(&self) -> bool;
}

impl Plain {
    /// What the transitions of an automaton say of words of ASCII letters.
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
        let large = stays(b'A'..=b'Z');
        let leads = |state: u32| {
            let all = |mut bytes: std::ops::RangeInclusive<u8>| {
                bytes.all(|byte| next(state, byte) == word)
            };
            state != 0 && all(b'a'..=b'z') && (!large || all(b'A'..=b'Z'))
        };
        if !leads(start) {
            return None;
        }
        let leads_after_large = |state| (b'A'..=b'Z').all(|byte| leads(next(state, byte)));
        let first_large = !large && leads_after_large(start);
        let (mut before, mut ends) = ([false; 256], [false; 256]);
        for byte in 0..0x80u8 {
            let after = next(start, byte);
            before[usize::from(byte)] = !byte.is_ascii_alphabetic()
                && leads(after)
                && (!first_large || leads_after_large(after));
            ends[usize::from(byte)] = automaton.step(word, byte) == (0, true);
        }
        let fold = if large { 0x20 * EACH } else { 0 };
        Some(Self { fold, first_large, leads: before, ends })
    }

    /// The end of the plain word at a position, if there is one and it is known to end there.
    #[inline]
    pub(super) fn word(&self, text: &[u8], place: usize) -> Option<usize> {
        let window = text.get(place..)?.first_chunk::<WINDOW>()?;
        let mut start = usize::from(self.leads[usize::from(window[0])]);
        if self.first_large {
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

    /// The high bit of each of eight bytes that is not a letter.
    #[inline]
    fn others(&self, bytes: u64) -> u64 {
        // In each byte: at least `a`, and more than `z`, without a carry into the next.
        let word = bytes | self.fold;
        let low = word & !HIGH;
        let inside = (low + (0x80 - 0x61) * EACH) & !(low + (0x80 - 0x7B) * EACH) & !word & HIGH;
        inside ^ HIGH
    }

    /// The number of letters at a position.
    #[cold]
    fn letters(&self, text: &[u8], place: usize) -> usize {
        let rest = text.get(place..).unwrap_or_default();
        let fold = if self.fold == 0 { 0 } else { 0x20 };
        rest.iter().take_while(|&&byte| (byte | fold).is_ascii_lowercase()).count()
    }
}

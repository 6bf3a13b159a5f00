//! Unicode normalization forms, by the data of Unicode 15.1.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::unicode::leb128;

/// The contents of `data/normalization-15.1.bin`, which `conformance/normalization.py` writes.
#[derive(Debug, Default)]
struct Data {
    /// Code points with one step of their decomposition.
    decompositions: HashMap<char, Decomposition>,
    /// The composition of two code points.
    compositions: HashMap<(char, char), char>,
    /// The first code point after each range, its first code point, and its combining class.
    classes: Vec<(u32, u32, u8)>,
}

#[derive(Debug)]
struct Decomposition {
    is_compatible: bool,
    points: Vec<char>,
}

static DATA: LazyLock<Data> = LazyLock::new(|| {
    let mut number = leb128(include_bytes!("../data/normalization-15.1.bin"));
    let character = |point| char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
    let mut data = Data::default();
    let mut point = 0u32;
    for _ in 0..number() {
        point = point.wrapping_add(number());
        let head = number();
        let points: Vec<char> = (0..head >> 2).map(|_| character(number())).collect();
        if head & 2 != 0
            && let [first, second] = *points
        {
            data.compositions.insert((first, second), character(point));
        }
        let decomposition = Decomposition { is_compatible: head & 1 != 0, points };
        data.decompositions.insert(character(point), decomposition);
    }
    point = 0;
    for _ in 0..number() {
        let first = point.wrapping_add(number());
        point = first.wrapping_add(number());
        data.classes.push((point, first, u8::try_from(number()).unwrap_or_default()));
    }
    data
});

const S_BASE: u32 = 0xAC00;
const L_BASE: u32 = 0x1100;
const V_BASE: u32 = 0x1161;
const T_BASE: u32 = 0x11A7;
const L_COUNT: u32 = 19;
const V_COUNT: u32 = 21;
const T_COUNT: u32 = 28;
const S_COUNT: u32 = L_COUNT * V_COUNT * T_COUNT;

/// Returns the canonical combining class.
fn class(c: char) -> u8 {
    let point = u32::from(c);
    let after = DATA.classes.partition_point(|&(end, ..)| end <= point);
    match DATA.classes.get(after) {
        Some(&(_, first, class)) if point >= first => class,
        _ => 0,
    }
}

/// Appends the full decomposition of a character.
fn decompose(c: char, compatible: bool, found: &mut Vec<char>) {
    let syllable = u32::from(c).wrapping_sub(S_BASE);
    if syllable < S_COUNT {
        let last = syllable % T_COUNT;
        let parts = [
            L_BASE + syllable / (V_COUNT * T_COUNT),
            V_BASE + syllable % (V_COUNT * T_COUNT) / T_COUNT,
            T_BASE + last,
        ];
        let parts = if last == 0 { &parts[..2] } else { &parts };
        found.extend(parts.iter().filter_map(|&point| char::from_u32(point)));
        return;
    }
    match DATA.decompositions.get(&c) {
        // The recursion is bounded: the decompositions of Unicode are at most three steps deep.
        Some(known) if compatible || !known.is_compatible => {
            known.points.iter().for_each(|&part| decompose(part, compatible, found));
        }
        _ => found.push(c),
    }
}

/// Returns the composition of two characters, if there is one.
fn compose(first: char, second: char) -> Option<char> {
    let (one, other) = (u32::from(first), u32::from(second));
    let (lead, vowel) = (one.wrapping_sub(L_BASE), other.wrapping_sub(V_BASE));
    if lead < L_COUNT && vowel < V_COUNT {
        return char::from_u32(S_BASE + (lead * V_COUNT + vowel) * T_COUNT);
    }
    let (syllable, tail) = (one.wrapping_sub(S_BASE), other.wrapping_sub(T_BASE));
    if syllable < S_COUNT && syllable.is_multiple_of(T_COUNT) && (1..T_COUNT).contains(&tail) {
        return char::from_u32(one + tail);
    }
    DATA.compositions.get(&(first, second)).copied()
}

/// Returns the decomposed text in canonical order: NFD, or NFKD if `compatible`.
pub(crate) fn decomposed(text: &str, compatible: bool) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    ordered(text, compatible).into_iter().collect()
}

fn ordered(text: &str, compatible: bool) -> Vec<char> {
    let mut points = Vec::with_capacity(text.len());
    text.chars().for_each(|c| decompose(c, compatible, &mut points));
    let mut from = 0;
    while from < points.len() {
        let run = points.get(from..).unwrap_or_default();
        let length = run.iter().take_while(|&&c| class(c) != 0).count();
        if let Some(marks) = points.get_mut(from..from + length) {
            marks.sort_by_key(|&c| class(c));
        }
        from += length + 1;
    }
    points
}

/// Returns the composed text: NFC, or NFKC if `compatible`.
pub(crate) fn composed(text: &str, compatible: bool) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut found: Vec<char> = Vec::with_capacity(text.len());
    // The place of the last starter, and the class of the last character after it.
    let (mut starter, mut last) = (None, 0);
    for c in ordered(text, compatible) {
        let kind = class(c);
        if let Some(place) = starter
            && let Some(base) = found.get_mut(place)
            && (last < kind || last == 0 && kind == 0)
            && let Some(both) = compose(*base, c)
        {
            // A starter composes only with the starter directly before it.
            if kind != 0 || place + 1 == found.len() {
                if let Some(base) = found.get_mut(place) {
                    *base = both;
                }
                continue;
            }
        }
        if kind == 0 {
            starter = Some(found.len());
        }
        last = kind;
        found.push(c);
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms are those of Python's `unicodedata.normalize`.
    #[test]
    fn texts_have_four_forms() {
        for (text, nfc, nfd, nfkc, nfkd) in [
            ("e\u{301}", "é", "e\u{301}", "é", "e\u{301}"),
            ("\u{1e9b}\u{323}", "\u{1e9b}\u{323}", "\u{17f}\u{323}\u{307}", "ṩ", "s\u{323}\u{307}"),
            (
                "\u{d55c}\u{ad6d}",
                "\u{d55c}\u{ad6d}",
                "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
                "\u{d55c}\u{ad6d}",
                "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
            ),
            (
                "\u{1112}\u{1161}\u{11ab}",
                "\u{d55c}",
                "\u{1112}\u{1161}\u{11ab}",
                "\u{d55c}",
                "\u{1112}\u{1161}\u{11ab}",
            ),
            (
                "q\u{307}\u{323}",
                "q\u{323}\u{307}",
                "q\u{323}\u{307}",
                "q\u{323}\u{307}",
                "q\u{323}\u{307}",
            ),
            ("ﬁ①Å½", "ﬁ①Å½", "ﬁ①A\u{30a}½", "fi1Å1⁄2", "fi1A\u{30a}1⁄2"),
            // U+0958 is excluded from composition; U+212B is a singleton.
            (
                "\u{958}\u{212b}",
                "\u{915}\u{93c}Å",
                "\u{915}\u{93c}A\u{30a}",
                "\u{915}\u{93c}Å",
                "\u{915}\u{93c}A\u{30a}",
            ),
            // U+0305 is between, of the same class as the mark after it.
            (
                "a\u{305}\u{301}",
                "a\u{305}\u{301}",
                "a\u{305}\u{301}",
                "a\u{305}\u{301}",
                "a\u{305}\u{301}",
            ),
        ] {
            assert_eq!(composed(text, false), nfc, "{text:?}");
            assert_eq!(decomposed(text, false), nfd, "{text:?}");
            assert_eq!(composed(text, true), nfkc, "{text:?}");
            assert_eq!(decomposed(text, true), nfkd, "{text:?}");
        }
    }
}

//! Passes that are not expressions.

use crate::unicode::{Properties, properties};

/// Cuts runs of numbers into groups of three from their right end. The first group of a run keeps
/// what is between it and the run before, as the reference has it; so does the rest of the text.
pub(super) fn digit_groups(text: &[u8], from: usize, mut each: impl FnMut(usize, usize)) {
    let mut done = from;
    let mut place = from;
    let mut ends = Vec::new();
    while place < text.len() {
        let (is_number, length) = number(text, place);
        if !is_number {
            place += length;
            continue;
        }
        ends.clear();
        while place < text.len() {
            let (is_number, length) = number(text, place);
            if !is_number {
                break;
            }
            place += length;
            ends.push(place);
        }
        // The lengths of the groups are known by the number of all.
        let count = ends.len();
        for (position, &end) in ends.iter().enumerate() {
            if (count - position - 1).is_multiple_of(3) {
                each(done, end);
                done = end;
            }
        }
    }
    if done < text.len() {
        each(done, text.len());
    }
}

fn number(text: &[u8], place: usize) -> (bool, usize) {
    match text.get(place) {
        Some(&byte) if byte < 0x80 => (byte.is_ascii_digit(), 1),
        _ => {
            let (point, length) = super::decode(text, place);
            (properties(point).is(Properties::NUMBER), length)
        }
    }
}

/// Cuts before every ASCII digit that a multiple of three digits follow, itself included:
/// `(?=(\d{3})+(?!\d))`.
pub(super) fn thousands(text: &[u8], from: usize, mut each: impl FnMut(usize, usize)) {
    let mut done = from;
    let mut place = from;
    while place < text.len() {
        let rest = text.get(place..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut cut = place + digits % 3;
        while cut < place + digits {
            if done < cut {
                each(done, cut);
                done = cut;
            }
            cut += 3;
        }
        place += digits.max(1);
    }
    if done < text.len() {
        each(done, text.len());
    }
}

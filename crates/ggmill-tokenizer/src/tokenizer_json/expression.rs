//! Regular expressions of `tokenizer.json`, run within bounds.

use std::sync::OnceLock;

use fancy_regex::{Regex, RegexBuilder, RuntimeError};

use super::{malformed, unsupported};
use crate::error::Error;

/// The most bytes of all expressions of a pre-tokenizer together, with counted repetitions written
/// out. It bounds the memory of compiled expressions, and the work of a search between two
/// backtracking steps.
pub(super) const MAX_EXPRESSIONS: usize = 1 << 13;

/// The limits of backtracking steps with which a search is tried, one after the other.
/// `fancy-regex` does not report how many steps a search took; the limit under which it succeeded
/// bounds them.
const STEP_LIMITS: [usize; 3] = [1 << 8, 1 << 13, 1_000_000];

/// The steps that may still be spent on a text: backtracking steps of expressions, and bytes that the
/// parts of a pipeline write.
///
/// There is one budget for the whole text: each part of a pre-tokenizer searches every piece, and
/// each search may backtrack, so that a limit for each search alone bounds nothing.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    #[cfg(test)]
    pub(super) spent: usize,
}

impl Budget {
    const BASE: usize = 1 << 22;
    /// Four steps of the lowest limit for each byte; known pre-tokenizers have at most five parts,
    /// and take few searches for each word.
    const PER_BYTE: usize = 1 << 12;

    pub(super) fn new(text: &str) -> Self {
        Self {
            left: text.len().saturating_mul(Self::PER_BYTE).saturating_add(Self::BASE),
            #[cfg(test)]
            spent: 0,
        }
    }

    /// Takes steps. Fails if fewer are left.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(steps).ok_or_else(|| {
            unsupported("the parts of the tokenizer take too many steps for this text")
        })?;
        #[cfg(test)]
        {
            self.spent += steps;
        }
        Ok(())
    }
}

/// A regular expression, compiled for each of [`STEP_LIMITS`] when that is needed.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    compiled: [OnceLock<Option<Regex>>; STEP_LIMITS.len()],
}

impl Expression {
    /// Compiles an expression. Fails if it is malformed.
    pub(super) fn new(text: &str) -> Result<Self, Error> {
        let this = Self { text: text.to_owned(), compiled: Default::default() };
        let first = this.build(STEP_LIMITS[0]);
        let first = first.map_err(|error| malformed(format!("regular expression: {error}")))?;
        let [slot, ..] = &this.compiled;
        slot.get_or_init(|| Some(first));
        Ok(this)
    }

    fn build(&self, limit: usize) -> Result<Regex, fancy_regex::Error> {
        RegexBuilder::new(&self.text).backtrack_limit(limit).build()
    }

    /// Finds the first match from a position on. A search that takes more than the highest limit
    /// finds none, as in the library.
    fn find(
        &self,
        text: &str,
        from: usize,
        budget: &mut Budget,
    ) -> Result<Option<(usize, usize)>, Error> {
        for (limit, slot) in STEP_LIMITS.into_iter().zip(&self.compiled) {
            budget.spend(limit)?;
            let Some(regex) = slot.get_or_init(|| self.build(limit).ok()) else { break };
            match regex.find_from_pos(text, from) {
                Ok(found) => return Ok(found.map(|found| (found.start(), found.end()))),
                Err(fancy_regex::Error::RuntimeError(RuntimeError::BacktrackLimitExceeded)) => {}
                // The stack overflowed after a million entries, which took no backtracking steps.
                Err(_) => {
                    budget.spend(STEP_LIMITS.into_iter().max().unwrap_or_default())?;
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Returns the matches in a text and the ranges between them, each with whether it counts as a
    /// match.
    pub(super) fn ranges(
        &self,
        text: &str,
        invert: bool,
        budget: &mut Budget,
    ) -> Result<Vec<(usize, usize, bool)>, Error> {
        let mut found = Vec::new();
        let (mut previous, mut from, mut last) = (0, 0, None);
        while let Some((start, end)) = self.find(text, from, budget)? {
            from = end;
            if start == end {
                let next = text.get(end..).and_then(|rest| rest.chars().next());
                from = end.saturating_add(next.map_or(1, char::len_utf8));
                // An empty match directly after a match is none.
                if last == Some(end) {
                    continue;
                }
            }
            last = Some(end);
            if previous != start {
                found.push((previous, start, invert));
            }
            found.push((start, end, !invert));
            previous = end;
        }
        if previous != text.len() {
            found.push((previous, text.len(), invert));
        }
        Ok(found)
    }
}

/// Returns the length of an expression with counted repetitions such as `{3}` written out:
/// `(ab){3}` is longer than three times `(ab)`. It may be too large, but not too small.
pub(super) fn expanded_length(expression: &str) -> usize {
    // Whitespace and comments between an atom and its count would hide the count.
    let is_verbose = expression.match_indices("(?").any(|(at, _)| {
        let flags = expression.get(at + 2..).unwrap_or_default();
        let flags = flags.split(|c: char| !c.is_ascii_alphabetic() && c != '-').next();
        flags.is_some_and(|flags| flags.contains('x'))
    });
    if is_verbose {
        return usize::MAX;
    }
    let mut outer: Vec<(usize, usize)> = Vec::new();
    // The length so far, and the longest atom that a count after it may repeat.
    let (mut length, mut atom) = (0usize, 0usize);
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '\\' => escape_length(rest),
            '[' => class_length(rest),
            '{' => match count(rest) {
                Some((taken, times)) => {
                    length = length.saturating_add(atom.saturating_mul(times.saturating_sub(1)));
                    atom = atom.saturating_mul(times.max(1));
                    taken
                }
                None => 1,
            },
            _ => c.len_utf8(),
        };
        rest = rest.get(taken..).unwrap_or_default();
        length = length.saturating_add(taken);
        match c {
            '(' => {
                outer.push((length, atom));
                (length, atom) = (0, 0);
            }
            ')' => {
                let (before, atom_before) = outer.pop().unwrap_or_default();
                // The parentheses may be a comment between an atom and its count.
                atom = length.max(atom_before);
                length = length.saturating_add(before);
            }
            '*' | '+' | '?' | '{' => {}
            _ => atom = taken,
        }
    }
    outer.into_iter().fold(length, |length, (before, _)| length.saturating_add(before))
}

/// Returns the length of the escape at the beginning, with the braces of `\p{L}` and `\x{300}`.
fn escape_length(text: &str) -> usize {
    let mut characters = text.chars();
    let escaped = characters.by_ref().nth(1);
    let length = 1 + escaped.map_or(0, char::len_utf8);
    let has_braces =
        escaped.is_some_and(|c| "pPxuUobBkg".contains(c)) && characters.next() == Some('{');
    let close = text.find('}').filter(|_| has_braces);
    close.map_or(length, |close| close + 1)
}

/// Returns the length of the character class at the beginning, with the classes in it.
fn class_length(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let is_first = text.get(..at).is_some_and(|before| matches!(before, "[" | "[^"));
        match rest.as_bytes() {
            [b'\\', ..] => {
                at += escape_length(rest);
                continue;
            }
            [b'[', ..] => depth += 1,
            [b']', ..] if !is_first => depth -= 1,
            _ => {}
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the length of the count at the beginning, such as `{2,3}`, and the highest number in it.
fn count(text: &str) -> Option<(usize, usize)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let numbers = inside.split(',').map(str::trim).filter(|number| !number.is_empty());
    let numbers: Option<Vec<usize>> = numbers.map(|number| number.parse().ok()).collect();
    Some((inside.len() + 2, numbers?.into_iter().max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_matches_are_those_of_find_iter() {
        let text = "ab  c dé";
        for expression in ["x*", " *", "b*", "(?=é)", "", "$", r"\b", "(?<=a)b*", "(?=(.))"] {
            let regex = Regex::new(expression).unwrap();
            let expected: Vec<_> = regex
                .find_iter(text)
                .map(|it| it.unwrap())
                .map(|it| (it.start(), it.end()))
                .collect();
            let expression = Expression::new(expression).unwrap();
            let found = expression.ranges(text, false, &mut Budget::new(text)).unwrap();
            let found: Vec<_> =
                found.into_iter().filter(|it| it.2).map(|it| (it.0, it.1)).collect();
            assert_eq!(found, expected, "{}", expression.text);
        }
    }

    #[test]
    fn counted_repetitions_are_written_out() {
        for (expression, expected) in [
            (r"\s{512}|\p{N}", 512 * 2 + 1 + 5),
            ("a{3}{2}", 3 * 2),
            (r"[\]a]{2}", 2 * 5),
            ("[]a]{2}", 2 * 4),
            ("[[a]b]{2}", 2 * 6),
            (r"(ab){1,3}", 3 * 4),
        ] {
            let found = expanded_length(expression);
            assert!(found >= expected, "{expression}: {found}");
            assert!(found < expected + 9, "{expression}: {found}");
        }
        for hidden in ["(?x)(?:(?=a)|b) {9999}", "(?:(?=a)|b)(?#c){9999}"] {
            assert!(expanded_length(hidden) > MAX_EXPRESSIONS, "{hidden}");
        }
    }
}

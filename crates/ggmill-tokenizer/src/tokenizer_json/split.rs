//! Pre-tokenizers of `tokenizer.json`: how a text is split before the model encodes each piece.

use std::sync::OnceLock;

use fancy_regex::{Regex, RegexBuilder, RuntimeError};
use serde_json::Value;

use super::{flag, flatten, malformed, to_byte_level, type_of, unsupported};
use crate::error::Error;

/// The expression of a `ByteLevel` pre-tokenizer.
const BYTE_LEVEL: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// The characters that the library treats as punctuation.
const PUNCTUATION: &str = r"[\p{P}$+<=>^`|~]";
/// The most bytes of all expressions of a pre-tokenizer together, with counted repetitions written
/// out. It bounds the memory of compiled expressions, and the work of a search between two
/// backtracking steps.
const MAX_EXPRESSIONS: usize = 1 << 13;

/// The limits of backtracking steps with which a search is tried, one after the other.
/// `fancy-regex` does not report how many steps a search took; the limit under which it succeeded
/// bounds them.
const STEP_LIMITS: [usize; 3] = [1 << 8, 1 << 13, 1_000_000];

/// The backtracking steps that may still be spent on a text.
///
/// There is one budget for the whole text: each part of a pre-tokenizer searches every piece, and
/// each search may backtrack, so that a limit for each search alone bounds nothing.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    #[cfg(test)]
    spent: usize,
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

    fn spend(&mut self, steps: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(steps).ok_or_else(|| {
            unsupported("the regular expressions of pre_tokenizer take too many steps")
        })?;
        #[cfg(test)]
        {
            self.spent += steps;
        }
        Ok(())
    }
}

/// A pre-tokenizer.
#[derive(Debug)]
pub(super) struct PreTokenizer(Vec<Step>);

#[derive(Debug)]
enum Step {
    Split { expression: Expression, behavior: Behavior, invert: bool },
    ByteLevel { add_prefix_space: bool, expression: Option<Expression> },
}

impl PreTokenizer {
    /// Reads a pre-tokenizer. Fails if it is malformed or not supported.
    pub(super) fn new(component: &Value) -> Result<Self, Error> {
        let mut steps = Vec::new();
        let mut length = 0usize;
        for part in flatten(component, "pre_tokenizer", "pretokenizers")? {
            let behavior = part.get("behavior").and_then(Value::as_str);
            let mut push = |expression: &str, behavior, invert| {
                let expression = Expression::new(expression)?;
                steps.push(Step::Split { expression, behavior, invert });
                Ok::<_, Error>(())
            };
            match type_of(part) {
                "Split" => {
                    let pattern = part.get("pattern");
                    let text = |kind| pattern.and_then(|it| it.get(kind)).and_then(Value::as_str);
                    let expression = match (text("Regex"), text("String")) {
                        (Some(regex), _) => regex.into(),
                        (None, Some(string)) => fancy_regex::escape(string),
                        (None, None) => return Err(malformed("Split has no pattern")),
                    };
                    length = length.saturating_add(expanded_length(&expression));
                    if length > MAX_EXPRESSIONS {
                        return Err(unsupported(format!(
                            "the regular expressions of pre_tokenizer have more than \
                             {MAX_EXPRESSIONS} bytes, with counted repetitions written out"
                        )));
                    }
                    let behavior = Behavior::parse(behavior.unwrap_or_default())?;
                    push(&expression, behavior, flag(part, "invert", false))?;
                }
                "ByteLevel" => {
                    let expression = flag(part, "use_regex", true);
                    let expression = expression.then(|| Expression::new(BYTE_LEVEL)).transpose()?;
                    let add_prefix_space = flag(part, "add_prefix_space", true);
                    steps.push(Step::ByteLevel { add_prefix_space, expression });
                }
                "Digits" if flag(part, "individual_digits", false) => {
                    push(r"\p{N}", Behavior::Isolated, false)?;
                }
                "Digits" => push(r"\p{N}", Behavior::Contiguous, false)?,
                "Punctuation" => {
                    push(PUNCTUATION, Behavior::parse(behavior.unwrap_or("Isolated"))?, false)?;
                }
                "BertPreTokenizer" => {
                    push(r"\s", Behavior::Removed, false)?;
                    push(PUNCTUATION, Behavior::Isolated, false)?;
                }
                "Whitespace" => push(r"\w+|[^\w\s]+", Behavior::Removed, true)?,
                "WhitespaceSplit" => push(r"\s", Behavior::Removed, false)?,
                other => {
                    return Err(unsupported(format!("pre_tokenizer {other:?} is not supported")));
                }
            }
        }
        Ok(Self(steps))
    }

    /// Returns the pieces of a text. Fails if the budget is spent.
    pub(super) fn split(&self, text: &str, budget: &mut Budget) -> Result<Vec<String>, Error> {
        let mut pieces = vec![text.to_owned()];
        for step in &self.0 {
            pieces = match step {
                Step::Split { expression, behavior, invert } => {
                    expression.split(pieces, *behavior, *invert, budget)?
                }
                Step::ByteLevel { add_prefix_space, expression } => {
                    if *add_prefix_space {
                        let without_space = pieces.iter_mut().filter(|it| !it.starts_with(' '));
                        without_space.for_each(|piece| piece.insert(0, ' '));
                    }
                    if let Some(expression) = expression {
                        pieces = expression.split(pieces, Behavior::Isolated, false, budget)?;
                    }
                    pieces.iter().map(|piece| to_byte_level(piece.as_bytes())).collect()
                }
            };
        }
        Ok(pieces)
    }
}

/// The handling of a match, and of the text between matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behavior {
    Removed,
    Isolated,
    Contiguous,
    MergedWithPrevious,
    MergedWithNext,
}

impl Behavior {
    fn parse(name: &str) -> Result<Self, Error> {
        Ok(match name {
            "Removed" => Self::Removed,
            "Isolated" => Self::Isolated,
            "Contiguous" => Self::Contiguous,
            "MergedWithPrevious" => Self::MergedWithPrevious,
            "MergedWithNext" => Self::MergedWithNext,
            other => return Err(unsupported(format!("behavior {other:?} is not supported"))),
        })
    }
}

/// A regular expression, compiled for each of [`STEP_LIMITS`] when that is needed.
#[derive(Debug)]
struct Expression {
    text: String,
    compiled: [OnceLock<Option<Regex>>; STEP_LIMITS.len()],
}

impl Expression {
    fn new(text: &str) -> Result<Self, Error> {
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
    fn ranges(
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

    /// Splits each piece.
    fn split(
        &self,
        pieces: Vec<String>,
        behavior: Behavior,
        invert: bool,
        budget: &mut Budget,
    ) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        for piece in pieces {
            let ranges = join(self.ranges(&piece, invert, budget)?, behavior);
            let parts = ranges.into_iter().filter_map(|(from, to)| piece.get(from..to));
            found.extend(parts.filter(|part| !part.is_empty()).map(str::to_owned));
        }
        Ok(found)
    }
}

/// Returns the length of an expression with counted repetitions such as `{3}` written out:
/// `(ab){3}` is longer than three times `(ab)`. It may be too large, but not too small.
fn expanded_length(expression: &str) -> usize {
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

/// Joins or removes ranges as a behavior says.
fn join(ranges: Vec<(usize, usize, bool)>, behavior: Behavior) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::with_capacity(ranges.len());
    let mut was_match = false;
    match behavior {
        Behavior::Removed => {
            return ranges.into_iter().filter(|range| !range.2).map(|it| (it.0, it.1)).collect();
        }
        Behavior::Isolated => return ranges.into_iter().map(|it| (it.0, it.1)).collect(),
        Behavior::MergedWithNext => {
            for (from, to, is_match) in ranges.into_iter().rev() {
                match found.last_mut() {
                    Some(last) if is_match && !was_match => last.0 = from,
                    _ => found.push((from, to)),
                }
                was_match = is_match;
            }
            found.reverse();
        }
        Behavior::Contiguous | Behavior::MergedWithPrevious => {
            for (from, to, is_match) in ranges {
                let joins = if behavior == Behavior::Contiguous {
                    is_match == was_match
                } else {
                    is_match && !was_match
                };
                match found.last_mut() {
                    Some(last) if joins => last.1 = to,
                    _ => found.push((from, to)),
                }
                was_match = is_match;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn split(component: &Value, text: &str) -> Result<Vec<String>, String> {
        let pre_tokenizer = PreTokenizer::new(component).map_err(|error| error.to_string())?;
        pre_tokenizer.split(text, &mut Budget::new(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_behavior_splits_as_it_says() {
        let of = |behavior: &str, invert: bool| {
            let step = json!({ "type": "Split", "pattern": { "String": "-" }, "behavior": behavior,
                "invert": invert });
            split(&step, "the-final--countdown").unwrap()
        };
        assert_eq!(of("Removed", false), ["the", "final", "countdown"]);
        assert_eq!(of("Removed", true), ["-", "-", "-"]);
        assert_eq!(of("Isolated", false), ["the", "-", "final", "-", "-", "countdown"]);
        assert_eq!(of("MergedWithPrevious", false), ["the-", "final-", "-", "countdown"]);
        assert_eq!(of("MergedWithNext", false), ["the", "-final", "-", "-countdown"]);
        assert_eq!(of("Contiguous", false), ["the", "-", "final", "--", "countdown"]);
    }

    #[test]
    fn steps_follow_each_other() {
        let step = json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Digits", "individual_digits": true },
            { "type": "ByteLevel", "add_prefix_space": false },
        ] });
        assert_eq!(split(&step, "I've 12 é").unwrap(), ["I", "'ve", "Ġ", "1", "2", "ĠÃ©"]);
        assert_eq!(split(&Value::Null, "as it is").unwrap(), ["as it is"]);
        assert!(split(&json!({ "type": "Other" }), "a").is_err());
        let broken = json!({ "type": "Split", "pattern": { "Regex": "(" }, "behavior": "Removed" });
        assert!(split(&broken, "a").unwrap_err().starts_with("regular expression: "));
    }

    fn split_by(expression: &str) -> Value {
        json!({ "type": "Split", "pattern": { "Regex": expression }, "behavior": "Isolated" })
    }

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

    /// Each search backtracks less than the limit of a search, and matches one character. With a
    /// limit for each search alone, the 64 parts would take a billion steps.
    #[test]
    fn the_steps_of_all_parts_are_bounded_together() {
        let text = "aaaaaaaaaaaaaaaa.".repeat(40);
        let parts = vec![split_by("(?=(?:a(?=)|a(?=))*\u{1}|.)."); 64];
        let pre_tokenizer = json!({ "type": "Sequence", "pretokenizers": parts });
        let pre_tokenizer = PreTokenizer::new(&pre_tokenizer).unwrap();
        let mut budget = Budget::new(&text);
        let error = pre_tokenizer.split(&text, &mut budget).unwrap_err().to_string();
        assert!(error.contains("too many steps"), "{error}");
        assert!(budget.spent <= (4 << 20) + text.len() * 4096, "{} steps", budget.spent);
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
        let nested = split_by("(?:(?:(?:(?=a)|b){90}){90}){90}");
        assert!(split(&nested, "a").unwrap_err().contains("repetitions"));
        for hidden in ["(?x)(?:(?=a)|b) {9999}", "(?:(?=a)|b)(?#c){9999}"] {
            assert!(expanded_length(hidden) > MAX_EXPRESSIONS, "{hidden}");
        }
    }
}

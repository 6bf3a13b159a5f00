//! Pre-tokenizers of `tokenizer.json`: how a text is split before the model encodes each piece.

use serde_json::Value;

use super::expression::{Budget, Expression, MAX_EXPRESSIONS, expanded_length};
use super::{character, flag, flatten, malformed, to_byte_level, type_of, unsupported};
use crate::error::Error;

/// The expression of a `ByteLevel` pre-tokenizer.
const BYTE_LEVEL: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// The characters that the library treats as punctuation.
const PUNCTUATION: &str = r"[\p{P}$+<=>^`|~]";

/// A piece of a text.
#[derive(Debug)]
struct Piece {
    text: String,
    /// The piece begins where the original text does.
    is_start: bool,
}

/// A pre-tokenizer.
#[derive(Debug)]
pub(super) struct PreTokenizer(Vec<Step>);

#[derive(Debug)]
enum Step {
    Split { expression: Expression, behavior: Behavior, invert: bool },
    ByteLevel { add_prefix_space: bool, expression: Option<Expression> },
    Metaspace { replacement: char, prepend: Prepend, split: bool },
    FixedLength(usize),
}

/// The pieces to which `Metaspace` prepends its character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prepend {
    Always,
    First,
    Never,
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
                    let expression = pattern(part)?;
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
                "CharDelimiterSplit" => {
                    let delimiter = character(part, "delimiter")
                        .ok_or_else(|| malformed("CharDelimiterSplit has no delimiter"))?;
                    let delimiter = String::from(delimiter);
                    push(&fancy_regex::escape(&delimiter), Behavior::Removed, false)?;
                }
                "Metaspace" => steps.push(metaspace(part)?),
                "FixedLength" => {
                    let length = part.get("length").and_then(Value::as_u64).unwrap_or(5);
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    if length == 0 {
                        return Err(malformed("FixedLength has the length 0"));
                    }
                    steps.push(Step::FixedLength(length));
                }
                other => {
                    return Err(unsupported(format!("pre_tokenizer {other:?} is not supported")));
                }
            }
        }
        Ok(Self(steps))
    }

    /// Returns the pieces of a text. `is_start` is `true` for a text that begins where the original
    /// text does. Fails if the budget is spent.
    pub(super) fn split(
        &self,
        text: &str,
        is_start: bool,
        budget: &mut Budget,
    ) -> Result<Vec<String>, Error> {
        let mut pieces = vec![Piece { text: text.to_owned(), is_start }];
        for step in &self.0 {
            pieces = step.apply(pieces, budget)?;
            // Byte-level steps double the length of texts that are not ASCII.
            budget.spend(pieces.iter().map(|piece| piece.text.len()).sum())?;
        }
        Ok(pieces.into_iter().map(|piece| piece.text).collect())
    }
}

impl Step {
    fn apply(&self, mut pieces: Vec<Piece>, budget: &mut Budget) -> Result<Vec<Piece>, Error> {
        match self {
            Self::Split { expression, behavior, invert } => {
                split(pieces, budget, |text, budget| {
                    Ok(join(expression.ranges(text, *invert, budget)?, *behavior))
                })
            }
            Self::ByteLevel { add_prefix_space, expression } => {
                if *add_prefix_space {
                    let without_space = pieces.iter_mut().filter(|it| !it.text.starts_with(' '));
                    without_space.for_each(|piece| piece.text.insert(0, ' '));
                }
                if let Some(expression) = expression {
                    pieces = split(pieces, budget, |text, budget| {
                        let ranges = expression.ranges(text, false, budget)?;
                        Ok(join(ranges, Behavior::Isolated))
                    })?;
                }
                for piece in &mut pieces {
                    piece.text = to_byte_level(piece.text.as_bytes());
                }
                Ok(pieces)
            }
            Self::Metaspace { replacement, prepend, split: splits } => {
                for piece in &mut pieces {
                    let mark = replacement.encode_utf8(&mut [0; 4]).to_owned();
                    piece.text = piece.text.replace(' ', &mark);
                    let prepends = match prepend {
                        Prepend::Always => true,
                        Prepend::First => piece.is_start,
                        Prepend::Never => false,
                    };
                    if prepends && !piece.text.starts_with(*replacement) {
                        piece.text.insert(0, *replacement);
                    }
                }
                if !splits {
                    return Ok(pieces);
                }
                split(pieces, budget, |text, _| {
                    let marks = text.match_indices(*replacement).map(|(at, _)| at);
                    Ok(ranges_from(marks.filter(|&at| at > 0), text.len()))
                })
            }
            Self::FixedLength(length) => split(pieces, budget, |text, _| {
                let places = text.char_indices().step_by(*length).map(|(at, _)| at);
                Ok(ranges_from(places.skip(1), text.len()))
            }),
        }
    }
}

/// Returns the ranges that begin at 0 and at each of these places.
fn ranges_from(places: impl Iterator<Item = usize>, len: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut from = 0;
    for place in places.chain([len]) {
        found.push((from, place));
        from = place;
    }
    found
}

/// Splits each piece into the ranges that `ranges_of` returns for it.
fn split(
    pieces: Vec<Piece>,
    budget: &mut Budget,
    ranges_of: impl Fn(&str, &mut Budget) -> Result<Vec<(usize, usize)>, Error>,
) -> Result<Vec<Piece>, Error> {
    let mut found = Vec::new();
    for piece in pieces {
        for (from, to) in ranges_of(&piece.text, budget)? {
            if let Some(part) = piece.text.get(from..to).filter(|part| !part.is_empty()) {
                let is_start = piece.is_start && from == 0;
                found.push(Piece { text: part.to_owned(), is_start });
            }
        }
    }
    Ok(found)
}

/// Returns the pattern of a component as a regular expression.
pub(super) fn pattern(part: &Value) -> Result<String, Error> {
    let pattern = part.get("pattern");
    let text = |kind| pattern.and_then(|it| it.get(kind)).and_then(Value::as_str);
    match (text("Regex"), text("String")) {
        (Some(regex), _) => Ok(regex.to_owned()),
        (None, Some(string)) => Ok(fancy_regex::escape(string).into_owned()),
        (None, None) => Err(malformed(format!("{} has no pattern", type_of(part)))),
    }
}

/// Reads a `Metaspace`. Older files have `add_prefix_space` instead of a scheme.
fn metaspace(part: &Value) -> Result<Step, Error> {
    let replacement =
        character(part, "replacement").ok_or_else(|| malformed("Metaspace has no replacement"))?;
    let prepend = match part.get("prepend_scheme").and_then(Value::as_str) {
        Some("always") => Prepend::Always,
        Some("first") => Prepend::First,
        Some("never") => Prepend::Never,
        Some(other) => {
            return Err(unsupported(format!("prepend_scheme {other:?} is not supported")));
        }
        None if flag(part, "add_prefix_space", true) => Prepend::Always,
        None => Prepend::Never,
    };
    Ok(Step::Metaspace { replacement, prepend, split: flag(part, "split", true) })
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
        pre_tokenizer.split(text, true, &mut Budget::new(text)).map_err(|error| error.to_string())
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

    /// Each search backtracks less than the limit of a search, and matches one character. With a
    /// limit for each search alone, the 64 parts would take a billion steps.
    #[test]
    fn the_steps_of_all_parts_are_bounded_together() {
        let text = "aaaaaaaaaaaaaaaa.".repeat(40);
        let parts = vec![split_by("(?=(?:a(?=)|a(?=))*\u{1}|.)."); 64];
        let pre_tokenizer = json!({ "type": "Sequence", "pretokenizers": parts });
        let pre_tokenizer = PreTokenizer::new(&pre_tokenizer).unwrap();
        let mut budget = Budget::new(&text);
        let error = pre_tokenizer.split(&text, true, &mut budget).unwrap_err().to_string();
        assert!(error.contains("too many steps"), "{error}");
        assert!(budget.spent <= (4 << 20) + text.len() * 4096, "{} steps", budget.spent);
    }

    #[test]
    fn long_expressions_are_refused() {
        let nested = split_by("(?:(?:(?:(?=a)|b){90}){90}){90}");
        assert!(split(&nested, "a").unwrap_err().contains("repetitions"));
    }
}

//! Pre-tokenizers: how a text is split before BPE, as the `tokenizers` library does it.

use fancy_regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::bytes::to_alphabet;

/// What a byte-level pre-tokenizer splits by.
pub(crate) const BYTE_LEVEL: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The longest regular expression in bytes, and the most parts of a pre-tokenizer.
const MAX_LEN: usize = 1 << 14;
const MOST: usize = 64;

/// Why a text cannot be split.
pub(crate) type Fault = String;

/// Splits a text by a pre-tokenizer of `tokenizer.json`.
pub(crate) fn split(pre_tokenizer: &Value, text: &str) -> Result<Vec<String>, Fault> {
    let mut pieces = vec![text.to_owned()];
    let mut steps = Vec::new();
    flatten(pre_tokenizer, &mut steps)?;
    for step in steps {
        pieces = apply(step, pieces)?;
    }
    Ok(pieces)
}

/// The steps of nested sequences, in order.
fn flatten<'a>(step: &'a Value, steps: &mut Vec<&'a Value>) -> Result<(), Fault> {
    if step.get("type").and_then(Value::as_str) == Some("Sequence") {
        let parts = step.get("pretokenizers").and_then(Value::as_array);
        // JSON is read to a depth of 128.
        return parts.into_iter().flatten().try_for_each(|part| flatten(part, steps));
    }
    if steps.len() >= MOST {
        return Err(format!("pre_tokenizer has more than {MOST} parts"));
    }
    if !step.is_null() {
        steps.push(step);
    }
    Ok(())
}

fn apply(step: &Value, pieces: Vec<String>) -> Result<Vec<String>, Fault> {
    let flag = |name: &str, otherwise| step.get(name).and_then(Value::as_bool).unwrap_or(otherwise);
    let behavior = step.get("behavior").and_then(Value::as_str);
    match step.get("type").and_then(Value::as_str).unwrap_or_default() {
        "Split" => {
            let pattern = step.get("pattern");
            let text = |kind| pattern.and_then(|it| it.get(kind)).and_then(Value::as_str);
            let expression = match (text("Regex"), text("String")) {
                (Some(regex), _) => regex.to_owned(),
                (None, Some(string)) => fancy_regex::escape(string).into_owned(),
                (None, None) => return Err("Split has no pattern".into()),
            };
            let behavior = Behavior::parse(behavior.unwrap_or_default())?;
            each(pieces, &expression, behavior, flag("invert", false))
        }
        "ByteLevel" => {
            let prefix = flag("add_prefix_space", true);
            let pieces =
                pieces
                    .into_iter()
                    .map(|piece| {
                        if prefix && !piece.starts_with(' ') { format!(" {piece}") } else { piece }
                    })
                    .collect();
            let pieces = if flag("use_regex", true) {
                each(pieces, BYTE_LEVEL, Behavior::Isolated, false)?
            } else {
                pieces
            };
            Ok(pieces.iter().map(|piece| to_alphabet(piece)).collect())
        }
        "Digits" if flag("individual_digits", false) => {
            each(pieces, r"\p{N}", Behavior::Isolated, false)
        }
        "Digits" => each(pieces, r"\p{N}", Behavior::Contiguous, false),
        "Punctuation" => {
            let behavior = Behavior::parse(behavior.unwrap_or("Isolated"))?;
            each(pieces, r"[\p{P}$+<=>^`|~]", behavior, false)
        }
        "BertPreTokenizer" => {
            let words = each(pieces, r"\s", Behavior::Removed, false)?;
            each(words, r"[\p{P}$+<=>^`|~]", Behavior::Isolated, false)
        }
        "Whitespace" => each(pieces, r"\w+|[^\w\s]+", Behavior::Removed, true),
        "WhitespaceSplit" => each(pieces, r"\s", Behavior::Removed, false),
        other => Err(format!("pre_tokenizer {other:?} is not supported")),
    }
}

/// What becomes of a match and of what is between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behavior {
    Removed,
    Isolated,
    Contiguous,
    MergedWithPrevious,
    MergedWithNext,
}

impl Behavior {
    fn parse(name: &str) -> Result<Self, Fault> {
        Ok(match name {
            "Removed" => Self::Removed,
            "Isolated" => Self::Isolated,
            "Contiguous" => Self::Contiguous,
            "MergedWithPrevious" => Self::MergedWithPrevious,
            "MergedWithNext" => Self::MergedWithNext,
            other => return Err(format!("behavior {other:?} is not supported")),
        })
    }
}

fn each(
    pieces: Vec<String>,
    expression: &str,
    behavior: Behavior,
    invert: bool,
) -> Result<Vec<String>, Fault> {
    if expression.len() > MAX_LEN {
        return Err(format!("a regular expression is longer than {MAX_LEN} bytes"));
    }
    let regex = RegexBuilder::new(expression)
        .backtrack_limit(1_000_000)
        .build()
        .map_err(|error| format!("regular expression: {error}"))?;
    let mut found = Vec::new();
    for piece in pieces {
        let ranges = joined(ranges(&regex, &piece, invert), behavior);
        let parts = ranges.into_iter().filter_map(|(from, to)| piece.get(from..to));
        found.extend(parts.filter(|part| !part.is_empty()).map(str::to_owned));
    }
    Ok(found)
}

/// The matches in a text and what is between, each with whether it counts as a match.
fn ranges(regex: &Regex, text: &str, invert: bool) -> Vec<(usize, usize, bool)> {
    let mut found = Vec::new();
    let mut previous = 0;
    // As the library: a search that fails, by taking too many steps, is at its end.
    for matched in regex.find_iter(text).map_while(Result::ok) {
        if previous != matched.start() {
            found.push((previous, matched.start(), invert));
        }
        found.push((matched.start(), matched.end(), !invert));
        previous = matched.end();
    }
    if previous != text.len() {
        found.push((previous, text.len(), invert));
    }
    found
}

fn joined(ranges: Vec<(usize, usize, bool)>, behavior: Behavior) -> Vec<(usize, usize)> {
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
}

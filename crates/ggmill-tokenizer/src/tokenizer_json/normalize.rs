//! Normalizers of `tokenizer.json`.

use std::borrow::Cow;
use std::sync::LazyLock;

use fancy_regex::Regex;
use serde_json::Value;

use super::base64::decode_base64;
use super::expression::{Budget, Expression, MAX_EXPRESSIONS, expanded_length};
use super::split::pattern;
use super::{flag, flatten, malformed, to_byte_level, type_of, unsupported};
use crate::charsmap::CharsMap;
use crate::error::Error;
use crate::normalization::{composed, decomposed};
use crate::unicode;
use crate::work::Work;

/// The maximum factor by which the replacements of a component can lengthen a text.
const MAX_GROWTH: usize = 1 << 12;

/// A step of a normalizer.
#[derive(Debug)]
enum Step {
    Composed { compatible: bool },
    Decomposed { compatible: bool },
    Lowercase,
    StripAccents,
    Bert { clean: bool, space_ideographs: bool, strip_accents: bool, lowercase: bool },
    Strip { left: bool, right: bool },
    Prepend(String),
    Replace { from: String, to: String },
    ReplaceMatches { expression: Box<Expression>, to: String },
    Nmt,
    Precompiled(CharsMap),
    ByteLevel,
}

/// A normalizer.
#[derive(Debug)]
pub(super) struct Normalizer(Vec<Step>);

impl Normalizer {
    /// Reads a normalizer. Fails if it is malformed or not supported.
    pub(super) fn new(component: &Value) -> Result<Self, Error> {
        let parts = flatten_bounded(component, "normalizer", "normalizers")?;
        let mut steps = Vec::with_capacity(parts.len());
        let mut length = 0usize;
        for part in parts {
            steps.push(match type_of(part) {
                "NFC" => Step::Composed { compatible: false },
                "NFKC" => Step::Composed { compatible: true },
                "NFD" => Step::Decomposed { compatible: false },
                "NFKD" => Step::Decomposed { compatible: true },
                "Lowercase" => Step::Lowercase,
                "StripAccents" => Step::StripAccents,
                "BertNormalizer" => {
                    let lowercase = flag(part, "lowercase", true);
                    Step::Bert {
                        clean: flag(part, "clean_text", true),
                        space_ideographs: flag(part, "handle_chinese_chars", true),
                        strip_accents: flag(part, "strip_accents", lowercase),
                        lowercase,
                    }
                }
                "Strip" => Step::Strip {
                    left: flag(part, "strip_left", true),
                    right: flag(part, "strip_right", true),
                },
                "Prepend" => {
                    let prefix = part.get("prepend").and_then(Value::as_str);
                    Step::Prepend(prefix.unwrap_or_default().to_owned())
                }
                "Replace" => {
                    let to = content(part).to_owned();
                    if let Some(from) = string_pattern(part)? {
                        Step::Replace { from: from.to_owned(), to }
                    } else {
                        let expression = pattern(part)?;
                        length = length.saturating_add(expanded_length(&expression));
                        if length > MAX_EXPRESSIONS {
                            return Err(unsupported(format!(
                                "the regular expressions of normalizer have more than \
                                 {MAX_EXPRESSIONS} bytes"
                            )));
                        }
                        let expression = Box::new(Expression::new(&expression)?);
                        Step::ReplaceMatches { expression, to }
                    }
                }
                "Nmt" => Step::Nmt,
                "Precompiled" => Step::Precompiled(charsmap(part)?),
                "ByteLevel" => Step::ByteLevel,
                other => return Err(unsupported(format!("normalizer {other:?} is not supported"))),
            });
        }
        Ok(Self(steps))
    }

    /// Returns the normalized text. Fails if the budget is spent.
    pub(super) fn apply<'t>(
        &self,
        text: Cow<'t, str>,
        budget: &mut Budget,
    ) -> Result<Cow<'t, str>, Error> {
        self.0.iter().try_fold(text, |text, step| {
            let text = step.apply(text, budget)?;
            budget.spend(text.len())?;
            Ok(text)
        })
    }
}

impl Step {
    fn apply<'t>(&self, text: Cow<'t, str>, budget: &mut Budget) -> Result<Cow<'t, str>, Error> {
        Ok(match self {
            Self::Composed { compatible } => composed(&text, *compatible).into(),
            Self::Decomposed { compatible } => decomposed(&text, *compatible).into(),
            Self::Lowercase => lowercase(&text).into(),
            Self::StripAccents => remove(MARKS.as_ref(), &text).into(),
            Self::Bert { clean, space_ideographs, strip_accents, lowercase: lowers } => {
                let mut text = text.into_owned();
                if *clean {
                    text = remove(CONTROLS.as_ref(), &text);
                    text = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
                }
                if *space_ideographs {
                    text = with_spaced_ideographs(&text);
                }
                if *strip_accents {
                    text = remove(NONSPACING_MARKS.as_ref(), &decomposed(&text, false));
                }
                if *lowers { lowercase(&text) } else { text }.into()
            }
            Self::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { &*text };
                if *right { text.trim_end() } else { text }.to_owned().into()
            }
            Self::Prepend(_) if text.is_empty() => text,
            Self::Prepend(prefix) => format!("{prefix}{text}").into(),
            Self::Replace { from, to } => text.replace(&**from, to).into(),
            Self::ReplaceMatches { expression, to } => {
                let mut replaced = String::with_capacity(text.len());
                for (from, end, is_match) in expression.ranges(&text, false, budget)? {
                    replaced.push_str(if is_match {
                        to
                    } else {
                        text.get(from..end).unwrap_or("")
                    });
                }
                replaced.into()
            }
            Self::Nmt => text.chars().filter(|c| !is_nmt_control(*c)).map(nmt_space).collect(),
            Self::Precompiled(map) => precompiled(map, &text)?.into(),
            Self::ByteLevel => to_byte_level(text.as_bytes()).into(),
        })
    }
}

/// Lower-cases each character by itself, unlike `str::to_lowercase`, which knows a final sigma.
fn lowercase(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Returns `true` for a control character that `Nmt` removes.
fn is_nmt_control(c: char) -> bool {
    matches!(u32::from(c), 0x1..=0x8 | 0xB | 0xE..=0x1F | 0x7F | 0x8F | 0x9F)
}

/// Replaces a character that `Nmt` treats as a space.
fn nmt_space(c: char) -> char {
    match u32::from(c) {
        0x9
        | 0xA
        | 0xC
        | 0xD
        | 0x1680
        | 0x200B..=0x200F
        | 0x2028
        | 0x2029
        | 0x2581
        | 0xFEFF
        | 0xFFFD => ' ',
        _ => c,
    }
}

/// Applies SentencePiece's character map as the library does: to a grapheme cluster of less than six
/// bytes, or else to each of its characters. Of a cluster that begins with a text of the map, the
/// rest is dropped.
fn precompiled(map: &CharsMap, text: &str) -> Result<String, Error> {
    const CLUSTER: usize = 6;
    let mut work = Work::default();
    work.begin(text.len());
    let mut replace = |part: &str| -> Option<String> {
        let found = map.shortest(part.as_bytes(), &mut work)?;
        Some(String::from_utf8_lossy(found).into_owned())
    };
    let mut found = String::with_capacity(text.len());
    for cluster in clusters(text) {
        if cluster.len() < CLUSTER
            && let Some(replacement) = replace(cluster)
        {
            found.push_str(&replacement);
            continue;
        }
        for c in cluster.chars() {
            match replace(c.encode_utf8(&mut [0; 4])) {
                Some(replacement) => found.push_str(&replacement),
                None => found.push(c),
            }
        }
    }
    work.finish()?;
    Ok(found)
}

/// An extended grapheme cluster (Unicode Standard Annex 29).
static CLUSTER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let hangul = r"\p{gcb=L}*(?:\p{gcb=V}+|\p{gcb=LV}\p{gcb=V}*|\p{gcb=LVT})\p{gcb=T}*|\p{gcb=L}+|\p{gcb=T}+";
    let pictures =
        r"\p{Extended_Pictographic}(?:\p{gcb=Extend}*\p{gcb=ZWJ}\p{Extended_Pictographic})*";
    let after = r"[\p{gcb=Extend}\p{gcb=ZWJ}\p{gcb=SpacingMark}]*";
    let controls = r"\p{gcb=Control}\r\n";
    Regex::new(&format!(
        r"(?s)\r\n|[{controls}]|\p{{gcb=Prepend}}*(?:{hangul}|\p{{gcb=RI}}\p{{gcb=RI}}|{pictures}|[^{controls}]){after}|."
    ))
    .ok()
});

/// Returns the grapheme clusters of a text.
fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let first = rest.chars().next().map_or(1, char::len_utf8);
        // Two ASCII characters other than a line break are two clusters.
        let is_plain = matches!(rest.as_bytes(), [a, b, ..] if *a != b'\r' && a | b < 0x80);
        let found = (!is_plain).then(|| CLUSTER.as_ref()?.find_from_pos(text, at).ok()?);
        let end = found.flatten().map_or(first, |found| found.end().saturating_sub(at));
        let cluster = rest.get(..end.max(first))?;
        at = at.saturating_add(cluster.len());
        Some(cluster)
    })
}

/// Reads the character map of a `Precompiled` normalizer.
fn charsmap(part: &Value) -> Result<CharsMap, Error> {
    let text = part.get("precompiled_charsmap").and_then(Value::as_str);
    let text = text.ok_or_else(|| malformed("Precompiled has no precompiled_charsmap"))?;
    let bytes = decode_base64(text)
        .map_err(|fault| malformed(format!("normalizer: precompiled_charsmap {fault}")))?;
    if bytes.is_empty() { Ok(CharsMap::default()) } else { CharsMap::new(&bytes) }
}

static NONSPACING_MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\p{Mn}").ok());
static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\p{M}").ok());

/// The characters that `BertNormalizer` removes: U+FFFD and control characters, except for three that
/// it replaces with spaces, but no unassigned ones.
static CONTROLS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[[\p{Cc}\p{Cf}\p{Co}\u{fffd}]&&[^\t\n\r]]").ok());

/// Removes the matches of an expression.
fn remove(expression: Option<&Regex>, text: &str) -> String {
    expression.map_or_else(|| text.to_owned(), |regex| regex.replace_all(text, "").into_owned())
}

/// Adds spaces before and after each ideograph.
fn with_spaced_ideographs(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut spaced, c| {
        if unicode::is_ideograph(c.into()) {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
        spaced
    })
}

/// Returns the content of a `Replace`.
pub(super) fn content(part: &Value) -> &str {
    part.get("content").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the text that a `Replace` replaces, or `None` if it has a regular expression.
pub(super) fn string_pattern(part: &Value) -> Result<Option<&str>, Error> {
    match part.get("pattern").and_then(|it| it.get("String")).and_then(Value::as_str) {
        Some("") => Err(malformed("a replacement of the empty string")),
        found => Ok(found),
    }
}

/// Returns the parts of a component. Fails if its replacements can make a text too long.
pub(super) fn flatten_bounded<'a>(
    component: &'a Value,
    name: &str,
    member: &str,
) -> Result<Vec<&'a Value>, Error> {
    let parts = flatten(component, name, member)?;
    let growth = parts.iter().fold(1usize, |growth, part| {
        let content = part.get("content").or_else(|| part.get("prepend")).and_then(Value::as_str);
        growth.saturating_mul(content.map_or(1, |content| content.len().max(1)))
    });
    if growth > MAX_GROWTH {
        return Err(unsupported(format!("{member} would make the text too long")));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normalized(normalizer: &Value, text: &str) -> Result<String, String> {
        let normalizer = Normalizer::new(normalizer).map_err(|error| error.to_string())?;
        let found = normalizer.apply(text.into(), &mut Budget::new(text));
        found.map(Cow::into_owned).map_err(|error| error.to_string())
    }

    #[test]
    fn texts_are_normalized() {
        let string = |from: &str, to: &str| json!({ "type": "Replace", "pattern": { "String": from }, "content": to });
        let llama = json!({ "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" }, string(" ", "▁"),
        ] });
        assert_eq!(normalized(&llama, "a b").unwrap(), "▁a▁b");
        assert_eq!(normalized(&Value::Null, "a b").unwrap(), "a b");
        let bert = json!({ "type": "BertNormalizer" });
        assert_eq!(normalized(&bert, "É\t\u{1}中").unwrap(), "e  中 ");
    }

    #[test]
    fn a_cluster_is_a_character_with_its_marks() {
        let text = "ae\u{301}\r\n한각👩\u{200d}👧x";
        let expected = ["a", "e\u{301}", "\r\n", "한", "각", "👩\u{200d}👧", "x"];
        assert_eq!(clusters(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn replacements_cannot_take_all_memory() {
        let doubled = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
        let nested = json!({ "type": "Sequence", "normalizers": vec![doubled; 20] });
        assert!(normalized(&nested, "a").unwrap_err().contains("too long"));
        let empty = json!({ "type": "Replace", "pattern": { "String": "" }, "content": "a" });
        assert!(normalized(&empty, "a").is_err());
        let bytes =
            json!({ "type": "Sequence", "normalizers": vec![json!({ "type": "ByteLevel" }); 60] });
        assert!(normalized(&bytes, "é").unwrap_err().contains("too many steps"));
    }
}

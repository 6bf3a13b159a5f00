//! The naming convention of GGUF files:
//! `<BaseName>-<SizeLabel>-<FineTune>-<Version>-<Encoding>-<Type>-<Shard>.gguf`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::text::is_digits;

/// A file name taken apart by the naming convention.
///
/// [`FileName::parse`] takes exactly what the specification's regular expression takes, with its
/// groups, and before them the `Sidecar` that files beside a model begin with. The specification's
/// own example `Hermes-2-Pro-Llama-3-8B-F16.gguf` is none: it has no version.
///
/// ```
/// use ggmill_core::FileName;
/// let name = FileName::parse("Mixtral-8x7B-v0.1-KQ2.gguf").ok_or("by the convention")?;
/// assert_eq!((name.base_name, name.size_label, name.version, name.encoding), ("Mixtral", Some("8x7B"), "v0.1", Some("KQ2")));
/// assert_eq!(name.to_string(), "Mixtral-8x7B-v0.1-KQ2.gguf");
/// assert_eq!(FileName::parse("not-a-known-arrangement.gguf"), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the parts are those of the specification")]
pub struct FileName<'a> {
    /// `mmproj` or `mtp`: what the file is to the model whose name follows.
    pub sidecar: Option<&'a str>,
    /// The model's base name or architecture.
    pub base_name: &'a str,
    /// The parameter class, such as `8x7B` or `3.8B-ContextLength4k`.
    pub size_label: Option<&'a str>,
    /// The purpose of the fine-tune.
    pub fine_tune: Option<&'a str>,
    /// The version, such as `v1.0`.
    pub version: &'a str,
    /// How weights are encoded, such as `Q4_K_M`.
    pub encoding: Option<&'a str>,
    /// `LoRA` or `vocab`, when the file is not a whole model.
    pub kind: Option<&'a str>,
    /// `00003-of-00009`: which shard it is.
    pub shard: Option<&'a str>,
}

/// The prefix of the name of a file beside a model.
const SIDECARS: [&str; 2] = ["mmproj", "mtp"];
/// Words in the place of the kind of file, which cannot begin an encoding.
const KINDS: [&str; 2] = ["LoRA", "vocab"];

impl<'a> FileName<'a> {
    /// Takes a file name (no directories) apart, or `None` when it does not follow the convention.
    pub fn parse(file_name: &'a str) -> Option<Self> {
        let stem = file_name.strip_suffix(".gguf")?;
        let sidecar = SIDECARS.into_iter().find_map(|sidecar| {
            let rest = stem.strip_prefix(sidecar)?.strip_prefix('-')?;
            Some((stem.get(..sidecar.len())?, rest))
        });
        if let Some((sidecar, rest)) = sidecar
            && let Some(name) = Segments::new(rest).name()
        {
            return Some(Self { sidecar: Some(sidecar), ..name });
        }
        Segments::new(stem).name()
    }
}

impl core::fmt::Display for FileName<'_> {
    /// The file name that [`FileName::parse`] took apart.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut name = String::new();
        for part in [self.sidecar, Some(self.base_name)].into_iter().flatten() {
            name.push_str(part);
            name.push('-');
        }
        // Without a size label its hyphen stays.
        name.push_str(self.size_label.unwrap_or(""));
        for part in [self.fine_tune, Some(self.version), self.encoding, self.kind, self.shard]
            .into_iter()
            .flatten()
        {
            name.push('-');
            name.push_str(part);
        }
        f.pad(&name)?;
        f.write_str(".gguf")
    }
}

/// The stem cut at its hyphens. No part of the convention but the base name, the fine tune, the
/// size label's attributes and the shard has a hyphen in it, so each other part is one segment.
struct Segments<'a> {
    stem: &'a str,
    /// Where each segment begins and ends.
    ranges: Vec<(usize, usize)>,
}

impl<'a> Segments<'a> {
    fn new(stem: &'a str) -> Self {
        let mut start = 0usize;
        let ranges = stem.split('-').map(|segment| {
            let range = (start, start.saturating_add(segment.len()));
            start = range.1.saturating_add(1);
            range
        });
        Self { ranges: ranges.collect(), stem }
    }

    /// Segments `from..to` with the hyphens between them.
    fn span(&self, from: usize, to: usize) -> Option<&'a str> {
        let (start, _) = self.ranges.get(from)?;
        let (_, end) = self.ranges.get(to.checked_sub(1)?)?;
        self.stem.get(*start..*end)
    }

    fn segment(&self, number: usize) -> Option<&'a str> {
        self.span(number, number.checked_add(1)?)
    }

    /// The regular expression takes the longest base name after which the rest fits, then a size
    /// label with attributes before one without, then the longest fine tune. A segment that can
    /// be a size label cannot be part of a base name, so there is at most one place for it.
    fn name(&self) -> Option<FileName<'a>> {
        let base_len = self
            .ranges
            .len()
            .min((0..self.ranges.len()).take_while(|&number| self.is_base(number)).count());
        // Nothing but the last few segments can be a version with what follows it; a size label
        // follows the longest possible base name.
        (1..=base_len).rev().find_map(|end| self.after_base(end))
    }

    fn is_base(&self, number: usize) -> bool {
        let Some(segment) = self.segment(number) else { return false };
        let letters = segment.chars().all(|c| c.is_ascii_alphanumeric() || is_space(c));
        let digits = segment.chars().all(|c| c.is_ascii_digit() || is_space(c));
        // The first segment may begin with a digit.
        letters && (number == 0 || digits || !segment.starts_with(|c: char| c.is_ascii_digit()))
    }

    fn after_base(&self, end: usize) -> Option<FileName<'a>> {
        let base_name = self.span(0, end)?;
        let next = self.segment(end)?;
        let name = FileName {
            base_name,
            ..self
                .with_size(end, next)
                .or_else(|| self.tail(end.checked_add(1)?).filter(|_| next.is_empty()))?
        };
        Some(name)
    }

    fn with_size(&self, at: usize, size: &str) -> Option<FileName<'a>> {
        if !is_size(size) {
            return None;
        }
        let after = at.checked_add(1)?;
        let attributed = self
            .segment(after)
            .filter(|segment| is_attribute(segment))
            .and_then(|_| self.after_size(at, after.checked_add(1)?));
        attributed.or_else(|| self.after_size(at, after))
    }

    /// The parts after a size label that ends before segment `end`: a fine tune, the longest first,
    /// or none.
    fn after_size(&self, at: usize, end: usize) -> Option<FileName<'a>> {
        let size_label = self.span(at, end);
        let fine = |to: usize| {
            let text = self.span(end, to).filter(|text| {
                !text.is_empty()
                    && text.chars().all(|c| c == '-' || c.is_ascii_alphanumeric() || is_space(c))
            })?;
            Some(FileName { size_label, fine_tune: Some(text), ..self.tail(to)? })
        };
        // Version, encoding, type and three segments of a shard: a version is among the last six.
        let first = self.ranges.len().saturating_sub(6).max(end.checked_add(1)?);
        let tuned = (first..self.ranges.len()).rev().find_map(fine);
        tuned.or_else(|| Some(FileName { size_label, ..self.tail(end)? }))
    }

    /// Version, encoding, type and shard from segment `at` to the end.
    fn tail(&self, at: usize) -> Option<FileName<'a>> {
        let version = self.segment(at).filter(|version| is_version(version))?;
        let mut name = FileName {
            sidecar: None,
            base_name: "",
            size_label: None,
            fine_tune: None,
            version,
            encoding: None,
            kind: None,
            shard: None,
        };
        let mut next = at.checked_add(1)?;
        let left = |next: usize| self.ranges.len().saturating_sub(next);
        let is_shard = |next: usize| {
            left(next) == 3
                && self.segment(next).is_some_and(is_five)
                && self.segment(next.saturating_add(1)) == Some("of")
        };
        // The digits of a shard could be an encoding, but what follows them could then be nothing.
        if !is_shard(next)
            && let Some(encoding) = self.segment(next).filter(|segment| is_encoding(segment))
        {
            name.encoding = Some(encoding);
            next = next.checked_add(1)?;
        }
        if let Some(kind) = self.segment(next).filter(|segment| KINDS.contains(segment)) {
            name.kind = Some(kind);
            next = next.checked_add(1)?;
        }
        if is_shard(next) && self.segment(next.checked_add(2)?).is_some_and(is_five) {
            name.shard = self.span(next, next.checked_add(3)?);
            next = next.checked_add(3)?;
        }
        (left(next) == 0).then_some(name)
    }
}

/// `\s` as JavaScript has it, in whose words the specification gives the expression.
fn is_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}')
}

fn is_five(text: &str) -> bool {
    text.len() == 5 && is_digits(text)
}

/// `(\d+\.)?\d+`.
fn is_decimal(text: &str) -> bool {
    text.split_once('.').map_or_else(
        || is_digits(text),
        |(whole, fraction)| is_digits(whole) && is_digits(fraction),
    )
}

/// `(?:\d+x)?(?:\d+\.)?\d+[A-Za-z]`.
fn is_size(text: &str) -> bool {
    let Some(number) = text.strip_suffix(|c: char| c.is_ascii_alphabetic()) else { return false };
    is_decimal(number)
        || number
            .split_once('x')
            .is_some_and(|(experts, number)| is_digits(experts) && is_decimal(number))
}

/// `[A-Za-z]+(\d+\.)?\d+[A-Za-z]+`.
fn is_attribute(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let inner = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    number.len() < text.len() && inner.len() < number.len() && is_decimal(inner)
}

/// `v\d+(?:\.\d+)*`.
fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|numbers| numbers.split('.').all(is_digits))
}

/// `(?!LoRA|vocab)[\w_]+`.
fn is_encoding(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !KINDS.iter().any(|kind| text.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    use ggmill_testdata::is_long;

    /// The specification's expression, with its classes written out as JavaScript has them.
    const EXPRESSION: &str = r"^(?<BaseName>[A-Za-z0-9\s]*(?:(?:-(?:(?:[A-Za-z\s][A-Za-z0-9\s]*)|(?:[0-9\s]*)))*))-(?:(?<SizeLabel>(?:\d+x)?(?:\d+\.)?\d+[A-Za-z](?:-[A-Za-z]+(\d+\.)?\d+[A-Za-z]+)?)(?:-(?<FineTune>[A-Za-z0-9\s-]+))?)?-(?:(?<Version>v\d+(?:\.\d+)*))(?:-(?<Encoding>(?!LoRA|vocab)[\w_]+))?(?:-(?<Type>LoRA|vocab))?(?:-(?<Shard>\d{5}-of-\d{5}))?\.gguf$";

    fn expression() -> fancy_regex::Regex {
        // A character class cannot hold another escape's set by itself, so the sets are spelt in
        // place.
        let text = EXPRESSION
            .replace(r"[\w_]", "[A-Za-z0-9_]")
            .replace(r"\d", "[0-9]")
            .replace("(?<", "(?P<")
            .replace("(?P<!", "(?<!");
        fancy_regex::Regex::new(&text.replace(r"\s", r"\t-\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}")).unwrap()
    }

    fn by_expression<'a>(
        regex: &fancy_regex::Regex,
        name: &'a str,
    ) -> Option<[Option<&'a str>; 7]> {
        let captures = regex.captures(name).unwrap()?;
        Some(
            ["BaseName", "SizeLabel", "FineTune", "Version", "Encoding", "Type", "Shard"]
                .map(|group| captures.name(group).map(|found| found.as_str())),
        )
    }

    fn by_hand(name: &str) -> Option<[Option<&str>; 7]> {
        let stem = name.strip_suffix(".gguf")?;
        let name = Segments::new(stem).name()?;
        Some([
            Some(name.base_name),
            name.size_label,
            name.fine_tune,
            Some(name.version),
            name.encoding,
            name.kind,
            name.shard,
        ])
    }

    #[test]
    fn every_row_of_pieces_is_taken_apart_as_the_expression_does() {
        let regex = expression();
        let pieces = [
            "", "A", "9", "7B", "8x7B", "3.8B", "x1.5k", "v1", "v1.0", "Q4_K", "LoRA", "vocab",
            "vocabx", "00001", "of", "a b", "a.b",
        ];
        let mut names: Vec<String> = alloc::vec![String::new()];
        let mut seen = 0u32;
        for _ in 0..if is_long() { 4 } else { 3 } {
            names = names
                .iter()
                .flat_map(|name| pieces.iter().map(move |piece| alloc::format!("{name}-{piece}")))
                .collect();
            for name in &names {
                for name in [
                    alloc::format!("{}.gguf", name.get(1..).unwrap()),
                    alloc::format!("M-7B{name}.gguf"),
                    alloc::format!("M{name}-v1-00001-of-00002.gguf"),
                ] {
                    let expected = by_expression(&regex, &name);
                    assert_eq!(by_hand(&name), expected, "{name}");
                    seen += u32::from(expected.is_some());
                }
            }
            // Longer rows: every eleventh of the rows so far is enough to begin them.
            if names.len() > 5_000 {
                names = names.into_iter().step_by(11).collect();
            }
        }
        assert!(seen > 1_000, "{seen} names follow the convention");
    }

    #[test]
    fn random_characters_are_taken_apart_as_the_expression_does() {
        let regex = expression();
        let characters: Vec<char> = "-Aa19.x_v \u{a0}\u{85}é".chars().collect();
        let mut state = 1u64;
        for _ in 0..if is_long() { 30_000 } else { 3_000 } {
            let mut name = String::new();
            for _ in 0..12 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let at =
                    usize::try_from(state >> 33).unwrap().checked_rem(characters.len()).unwrap();
                name.push(characters[at]);
            }
            name.push_str(if state >> 62 == 0 { ".gguf" } else { "-v1.gguf" });
            assert_eq!(by_hand(&name), by_expression(&regex, &name), "{name:?}");
        }
    }

    #[test]
    fn the_examples_of_the_specification() {
        let grok = FileName::parse("Grok-100B-v1.0-Q4_0-00003-of-00009.gguf").unwrap();
        assert_eq!(
            (grok.base_name, grok.encoding, grok.shard),
            ("Grok", Some("Q4_0"), Some("00003-of-00009"))
        );
        let phi = FileName::parse("Phi-3-mini-3.8B-ContextLength4k-instruct-v1.0.gguf").unwrap();
        assert_eq!(
            (phi.base_name, phi.size_label, phi.fine_tune),
            ("Phi-3-mini", Some("3.8B-ContextLength4k"), Some("instruct"))
        );
        assert_eq!(
            FileName::parse("Hermes-2-Pro-Llama-3-8B-v1.0-F16.gguf").unwrap().base_name,
            "Hermes-2-Pro-Llama-3"
        );
        // The prose of the specification has it as an example, its expression refuses it.
        assert_eq!(FileName::parse("Hermes-2-Pro-Llama-3-8B-F16.gguf"), None);
    }

    #[test]
    fn a_name_is_put_together_as_it_was() {
        for name in [
            "mmproj-Gemma-3-4B-it-v1.0-F16.gguf",
            "A--v1.gguf",
            "Grok-100B-v1.0-Q4_0-00003-of-00009.gguf",
            "mtp-X-7B-v2-Q8_0-LoRA.gguf",
        ] {
            assert_eq!(FileName::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(
            FileName::parse("mmproj-Gemma-3-4B-it-v1.0-F16.gguf").unwrap().sidecar,
            Some("mmproj")
        );
    }
}

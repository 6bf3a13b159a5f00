//! The naming convention of GGUF files,
//! `<BaseName>-<SizeLabel>-<FineTune>-<Version>-<Encoding>-<Type>-<Shard>.gguf`: parsing a name, and
//! composing one from metadata and tensors.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::{FileType, Metadata, RawStr, Shape, Split, is_digits, keys};

/// A file name parsed according to the naming convention.
///
/// [`FileName::parse`] accepts what the regular expression of the specification accepts, and returns
/// its groups; it also accepts the prefixes `mmproj-` and `mtp-` of files that accompany a model. The
/// specification's example `Hermes-2-Pro-Llama-3-8B-F16.gguf` does not match: it has no version.
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
    /// `mmproj` or `mtp`, for a file that accompanies the model whose name follows.
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
    /// `LoRA` or `vocab`, if the file is not a whole model.
    pub kind: Option<&'a str>,
    /// The number and count of a shard, such as `00003-of-00009`.
    pub shard: Option<&'a str>,
}

/// The prefixes of files that accompany a model.
const SIDECARS: [&str; 2] = ["mmproj", "mtp"];
/// The kinds of files, with which an encoding cannot begin.
const KINDS: [&str; 2] = ["LoRA", "vocab"];

impl<'a> FileName<'a> {
    /// Parses a file name without directories. Returns `None` if it does not follow the convention.
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
    /// Writes the file name that [`FileName::parse`] has parsed.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut name = String::new();
        for part in [self.sidecar, Some(self.base_name)].into_iter().flatten() {
            name.push_str(part);
            name.push('-');
        }
        // The hyphen after a missing size label remains.
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

/// The stem split at hyphens. Base name, fine tune, size label and shard can have several segments;
/// every other part is one segment.
struct Segments<'a> {
    stem: &'a str,
    /// The byte range of each segment.
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

    /// Returns segments `from..to` with the hyphens between them.
    fn span(&self, from: usize, to: usize) -> Option<&'a str> {
        let (start, _) = self.ranges.get(from)?;
        let (_, end) = self.ranges.get(to.checked_sub(1)?)?;
        self.stem.get(*start..*end)
    }

    fn segment(&self, number: usize) -> Option<&'a str> {
        self.span(number, number.checked_add(1)?)
    }

    /// Matches as the regular expression does: the longest base name for which the rest matches, then
    /// a size label preferably with attributes, then the longest fine tune. A segment that is a size
    /// label cannot be part of a base name, so its position is unique.
    fn name(&self) -> Option<FileName<'a>> {
        let base_len = self
            .ranges
            .len()
            .min((0..self.ranges.len()).take_while(|&number| self.is_base(number)).count());
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

    /// Matches the parts after a size label in segments `at..end`: the longest fine tune, or none.
    fn after_size(&self, at: usize, end: usize) -> Option<FileName<'a>> {
        let size_label = self.span(at, end);
        let fine = |to: usize| {
            let text = self.span(end, to).filter(|text| {
                !text.is_empty()
                    && text.chars().all(|c| c == '-' || c.is_ascii_alphanumeric() || is_space(c))
            })?;
            Some(FileName { size_label, fine_tune: Some(text), ..self.tail(to)? })
        };
        // A version is one of the last six segments: version, encoding, type, and three for the shard.
        let first = self.ranges.len().saturating_sub(6).max(end.checked_add(1)?);
        let tuned = (first..self.ranges.len()).rev().find_map(fine);
        tuned.or_else(|| Some(FileName { size_label, ..self.tail(end)? }))
    }

    /// Matches version, encoding, type and shard from segment `at` to the end.
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
        // The digits of a shard number match an encoding, but then the rest does not match.
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

/// Matches `\s` of JavaScript, the syntax of the expression in the specification.
fn is_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}')
}

fn is_five(text: &str) -> bool {
    text.len() == 5 && is_digits(text)
}

/// Matches `(\d+\.)?\d+`.
fn is_decimal(text: &str) -> bool {
    text.split_once('.').map_or_else(
        || is_digits(text),
        |(whole, fraction)| is_digits(whole) && is_digits(fraction),
    )
}

/// Matches `(?:\d+x)?(?:\d+\.)?\d+[A-Za-z]`.
fn is_size(text: &str) -> bool {
    let Some(number) = text.strip_suffix(|c: char| c.is_ascii_alphabetic()) else { return false };
    is_decimal(number)
        || number
            .split_once('x')
            .is_some_and(|(experts, number)| is_digits(experts) && is_decimal(number))
}

/// Matches `[A-Za-z]+(\d+\.)?\d+[A-Za-z]+`.
fn is_attribute(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let inner = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    number.len() < text.len() && inner.len() < number.len() && is_decimal(inner)
}

/// Matches `v\d+(?:\.\d+)*`.
fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|numbers| numbers.split('.').all(is_digits))
}

/// Matches `(?!LoRA|vocab)[\w_]+`.
fn is_encoding(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !KINDS.iter().any(|kind| text.starts_with(kind))
}

/// The reason why no file name can be composed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamingError {
    /// The keys of the base name, the name and the architecture are missing.
    NoBaseName,
    /// The size label is missing, and there are no tensors to compute it from.
    NoSizeLabel,
    /// The composed name does not follow the convention.
    Unconventional(String),
}

impl fmt::Display for NamingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBaseName => f.write_str(
                "general.basename, general.name and general.architecture are all missing",
            ),
            Self::NoSizeLabel => {
                f.write_str("general.size_label is missing, and there are no tensors to count")
            }
            Self::Unconventional(name) => write!(
                f,
                "the metadata results in {:?}, which does not follow the convention",
                RawStr::from(name.as_str())
            ),
        }
    }
}

impl core::error::Error for NamingError {}

/// Composes a file name from metadata: base name, size label, fine tune, version (default `v1.0`),
/// encoding, type, shard.
///
/// `counted` is the size label computed from the tensors ([`size_label`]). It is used if the key is
/// missing, and is `None` for a vocabulary file, which has no tensors. Text from the metadata is reduced
/// to letters, digits, dots, underscores and hyphens, so that a name cannot contain a path.
///
/// ```
/// use ggmill_core::{Builder, Header, MetadataBuf, suggested_file_name};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// metadata.set("general.name", "Tiny Stories");
/// metadata.set("general.file_type", 7u32);
/// let file = Header::parse(Builder::new().metadata(metadata).plan()?.header().to_vec())?;
/// assert_eq!(suggested_file_name(&file.metadata(), Some("8B".into()), None)?, "Tiny-Stories-8B-v1.0-Q8_0.gguf");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn suggested_file_name(
    metadata: &Metadata<'_>,
    counted: Option<String>,
    split: Option<Split>,
) -> Result<String, NamingError> {
    let is_vocabulary = counted.is_none();
    let text = |key: &str| metadata.str(key).ok().map(str::trim).filter(|text| !text.is_empty());
    let plain = |text: &str| {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' })
            .collect::<String>()
    };
    let words = |text: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join("-")
    };
    let base = [keys::GENERAL_BASENAME, keys::GENERAL_NAME, keys::GENERAL_ARCHITECTURE]
        .into_iter()
        .find_map(text);
    let mut name = String::new();
    let kind = text(keys::GENERAL_TYPE);
    if kind == Some("mmproj") {
        name.push_str("mmproj-");
    }
    let base = base.map(words).filter(|base| !base.is_empty());
    name.push_str(&base.ok_or(NamingError::NoBaseName)?);
    let size = text(keys::GENERAL_SIZE_LABEL).map(plain).or(counted);
    let size = size.ok_or(NamingError::NoSizeLabel)?;
    let mut push = |part: &str| {
        name.push('-');
        name.push_str(part);
    };
    push(&size);
    if let Some(fine_tune) = text(keys::GENERAL_FINETUNE) {
        push(&words(fine_tune));
    }
    let version = text(keys::GENERAL_VERSION).map_or_else(|| "v1.0".to_owned(), plain);
    push(&if version.starts_with('v') { version } else { format!("v{version}") });
    if let Some(encoding) = metadata
        .u32(keys::GENERAL_FILE_TYPE)
        .ok()
        .and_then(|number| FileType(number).name())
        .filter(|_| !is_vocabulary)
    {
        push(encoding);
    }
    match kind {
        Some("adapter") => push("LoRA"),
        _ if is_vocabulary => push("vocab"),
        _ => {}
    }
    if let Some(split) = split {
        push(&format!("{:05}-of-{:05}", split.number.saturating_add(1), split.count));
    }
    name.push_str(".gguf");
    if FileName::parse(&name).is_some() { Ok(name) } else { Err(NamingError::Unconventional(name)) }
}

/// Computes the size label of a model, such as `260K`, `1.2B` or `8x7B`, from its tensors. Returns `None`
/// if they have no elements.
///
/// As in gguf-py, tensors named `…_exps.…` with three or more dimensions have one expert for each index
/// of the last dimension, and the size is that of one expert plus the shared tensors.
///
/// ```
/// use ggmill_core::{RawStr, Shape, size_label};
/// let (embedding, experts) = (Shape::new(&[4096, 32_000])?, Shape::new(&[4096, 14_336, 8])?);
/// let tensors = [(RawStr::from("token_embd.weight"), &embedding), (RawStr::from("blk.0.ffn_up_exps.weight"), &experts)];
/// assert_eq!(size_label(tensors).as_deref(), Some("8x190M"));
/// # Ok::<(), ggmill_core::Error>(())
/// ```
pub fn size_label<'a>(
    tensors: impl IntoIterator<Item = (RawStr<'a>, &'a Shape)>,
) -> Option<String> {
    let (mut total, mut shared, mut expert, mut experts, mut expert_tensors) =
        (0u64, 0u64, 0u64, 0u64, 0u64);
    for (name, shape) in tensors {
        let contains =
            |part: &[u8]| name.as_bytes().windows(part.len()).any(|window| window == part);
        let elements = shape.elements();
        total = total.saturating_add(elements);
        let dimensions = shape.dimensions();
        let count = if contains(b".bias") { dimensions.get(1) } else { dimensions.get(2) };
        match count.filter(|&&count| dimensions.len() >= 3 && count > 0 && contains(b"_exps.")) {
            Some(count) => {
                expert = expert.saturating_add(elements.checked_div(*count).unwrap_or(0));
                experts = experts.saturating_add(*count);
                expert_tensors = expert_tensors.saturating_add(1);
            }
            None => shared = shared.saturating_add(elements),
        }
    }
    let label = match experts.checked_div(expert_tensors) {
        Some(count) => format!("{count}x{}", rounded(shared.saturating_add(expert))),
        None => rounded(total),
    };
    (total > 0).then_some(label)
}

/// Formats a number of parameters with at least two digits: `1.2B`, `15M`, `260K`.
#[expect(clippy::cast_precision_loss, reason = "rounded to two digits")]
fn rounded(parameters: u64) -> String {
    let parameters = parameters as f64;
    let (scaled, unit) = match parameters {
        p if p > 1e12 => (p * 1e-12, 'T'),
        p if p > 1e9 => (p * 1e-9, 'B'),
        p if p > 1e6 => (p * 1e-6, 'M'),
        p => (p * 1e-3, 'K'),
    };
    // Two digits for values that round to less than 1, one for those that round to less than 10.
    let decimals = match scaled {
        s if s <= 0.5 => 2,
        s if s < 9.5 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::string::ToString as _;
    use ggmill_testdata::is_long;

    /// The specification's expression, with its classes written out as JavaScript has them.
    const EXPRESSION: &str = r"^(?<BaseName>[A-Za-z0-9\s]*(?:(?:-(?:(?:[A-Za-z\s][A-Za-z0-9\s]*)|(?:[0-9\s]*)))*))-(?:(?<SizeLabel>(?:\d+x)?(?:\d+\.)?\d+[A-Za-z](?:-[A-Za-z]+(\d+\.)?\d+[A-Za-z]+)?)(?:-(?<FineTune>[A-Za-z0-9\s-]+))?)?-(?:(?<Version>v\d+(?:\.\d+)*))(?:-(?<Encoding>(?!LoRA|vocab)[\w_]+))?(?:-(?<Type>LoRA|vocab))?(?:-(?<Shard>\d{5}-of-\d{5}))?\.gguf$";

    fn expression() -> fancy_regex::Regex {
        // `\d` and `\s` match Unicode here, so they are replaced by JavaScript's sets.
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
    fn combinations_of_segments_match_as_the_expression() {
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
            // Extend only every eleventh name, so that longer names do not take too long.
            if names.len() > 5_000 {
                names = names.into_iter().step_by(11).collect();
            }
        }
        assert!(seen > 1_000, "{seen} names follow the convention");
    }

    #[test]
    fn random_characters_match_as_the_expression() {
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
        // An example in the specification, whose expression does not match it.
        assert_eq!(FileName::parse("Hermes-2-Pro-Llama-3-8B-F16.gguf"), None);
    }

    #[test]
    fn a_parsed_name_is_written_unchanged() {
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

    #[test]
    fn sizes_are_rounded_as_in_gguf_py() {
        // The results of gguf.utility.model_weight_count_rounded_notation.
        let reference = [
            (260_032, "260K"),
            (1_235_814_400, "1.2B"),
            (7_241_732_096, "7.2B"),
            (999, "1.0K"),
            (400, "0.40K"),
            (46_702_792_704, "47B"),
            (9_950_000, "10M"),
        ];
        for (parameters, label) in reference {
            assert_eq!(rounded(parameters), label, "{parameters}");
        }
    }
}

//! YAML as read by Python's `yaml.safe_load`, to the extent that model cards need it: plain scalars
//! have the types of YAML 1.1.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ggmill_core::ByteSize;
use regex_lite::Regex;
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

/// Maximum nesting depth of mappings and lists.
const MAX_DEPTH: usize = 64;
/// Maximum size in bytes after aliases are expanded.
const MAX_EXPANDED: usize = 16 << 20;
/// Overhead of a value in bytes, besides its text.
const OVERHEAD: usize = 64;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Yaml {
    Null,
    Text(String),
    /// A number, a date or a boolean, as written.
    Other {
        text: String,
        /// `true` if the value is false in Python.
        is_falsy: bool,
    },
    List(Vec<Yaml>),
    /// Entries with text keys. Of duplicate keys, the last counts.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// Returns the value of an entry.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the text of a scalar of any type, except null.
    pub(super) fn as_written(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Other { text, .. } => Some(text),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Returns the approximate size of a copy in bytes.
    fn cost(&self) -> usize {
        let within = match self {
            Self::Null => 0,
            Self::Text(text) | Self::Other { text, .. } => text.len(),
            Self::List(items) => items.iter().map(Self::cost).sum(),
            Self::Map(entries) => {
                entries.iter().map(|(key, value)| key.len().saturating_add(value.cost())).sum()
            }
        };
        within.saturating_add(OVERHEAD)
    }
}

/// Parses a text with one document. The error describes the problem.
pub(super) fn read(text: &str) -> Result<Yaml, String> {
    let mut reader = Reader::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| error.to_string())?;
        reader.take(event).map_err(|fault| format!("line {}: {fault}", span.start.line()))?;
    }
    Ok(reader.document.unwrap_or(Yaml::Null))
}

/// A list or a mapping that is not yet complete.
enum OpenCollection {
    List(Vec<Yaml>),
    Map {
        entries: Vec<(String, Yaml)>,
        /// Entries of merge keys (`<<`), which have lower precedence.
        merged: Vec<(String, Yaml)>,
        key: Option<Key>,
    },
}

/// The key of the entry whose value comes next.
enum Key {
    Text(String),
    /// A key that is not text; the entry is ignored.
    Other,
    Merge,
}

#[derive(Default)]
struct Reader {
    open: Vec<(OpenCollection, usize)>,
    anchors: BTreeMap<usize, Yaml>,
    expanded: usize,
    document: Option<Yaml>,
}

impl Reader {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentEnd
            | Event::DocumentStart(_) => Ok(()),
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                let value = value.ok_or("an alias within its own anchor")?;
                self.count_expansion(&value)?;
                self.add(value)
            }
            Event::Scalar(text, style, anchor, tag) => {
                if style == ScalarStyle::Plain
                    && tag.is_none()
                    && text == "<<"
                    && let Some((OpenCollection::Map { key: key @ None, .. }, _)) =
                        self.open.last_mut()
                {
                    *key = Some(Key::Merge);
                    return Ok(());
                }
                let value = scalar(text.into_owned(), style, tag.as_deref())?;
                self.complete(value, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(OpenCollection::List(Vec::new()), anchor, tag.as_deref(), "seq")
            }
            Event::MappingStart(anchor, tag) => {
                let map =
                    OpenCollection::Map { entries: Vec::new(), merged: Vec::new(), key: None };
                self.begin(map, anchor, tag.as_deref(), "map")
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((open, anchor)) = self.open.pop() else {
                    return Err("an end without a start".to_owned());
                };
                let value = match open {
                    OpenCollection::List(items) => Yaml::List(items),
                    OpenCollection::Map { entries, mut merged, .. } => {
                        merged.extend(entries);
                        Yaml::Map(merged)
                    }
                };
                self.complete(value, anchor)
            }
        }
    }

    fn begin(
        &mut self,
        open: OpenCollection,
        anchor: usize,
        tag: Option<&Tag>,
        expected: &str,
    ) -> Result<(), String> {
        if tag.is_some_and(|tag| !(tag.is_yaml_core_schema() && tag.suffix == expected)) {
            return Err("an unknown tag".to_owned());
        }
        if let Some((OpenCollection::Map { key: None, .. }, _)) = self.open.last() {
            return Err("a key that is not a scalar".to_owned());
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} levels"));
        }
        self.open.push((open, anchor));
        Ok(())
    }

    /// Adds a complete value, and defines its anchor unless `anchor` is 0.
    fn complete(&mut self, value: Yaml, anchor: usize) -> Result<(), String> {
        if anchor > 0 {
            self.count_expansion(&value)?;
            self.anchors.insert(anchor, value.clone());
        }
        self.add(value)
    }

    fn count_expansion(&mut self, value: &Yaml) -> Result<(), String> {
        self.expanded = self.expanded.saturating_add(value.cost());
        if self.expanded > MAX_EXPANDED {
            return Err(format!("aliases expand to more than {}", ByteSize::from(MAX_EXPANDED)));
        }
        Ok(())
    }

    fn add(&mut self, value: Yaml) -> Result<(), String> {
        match self.open.last_mut() {
            None if self.document.is_some() => return Err("a second document".to_owned()),
            None => self.document = Some(value),
            Some((OpenCollection::List(items), _)) => items.push(value),
            Some((OpenCollection::Map { entries, merged, key }, _)) => match (key.take(), value) {
                (None, Yaml::Text(text)) => *key = Some(Key::Text(text)),
                (None, Yaml::Null | Yaml::Other { .. }) => *key = Some(Key::Other),
                (None, Yaml::List(_) | Yaml::Map(_)) => {
                    return Err("a key that is not a scalar".to_owned());
                }
                (Some(Key::Text(name)), value) => entries.push((name, value)),
                (Some(Key::Other), _) => {}
                (Some(Key::Merge), value) => merge(value, merged)?,
            },
        }
        Ok(())
    }
}

/// Merges the entries of a mapping, or of a list of mappings in which the first takes precedence.
fn merge(value: Yaml, merged: &mut Vec<(String, Yaml)>) -> Result<(), String> {
    const EXPECTED: &str = "expected a mapping to merge";
    match value {
        Yaml::Map(entries) => merged.extend(entries),
        Yaml::List(items) => {
            for item in items.into_iter().rev() {
                let Yaml::Map(entries) = item else { return Err(EXPECTED.to_owned()) };
                merged.extend(entries);
            }
        }
        _ => return Err(EXPECTED.to_owned()),
    }
    Ok(())
}

fn scalar(text: String, style: ScalarStyle, tag: Option<&Tag>) -> Result<Yaml, String> {
    let is_text = match tag {
        None => style != ScalarStyle::Plain,
        Some(tag) if tag.is_yaml_core_schema() => tag.suffix == "str",
        Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => true,
        Some(_) => return Err("an unknown tag".to_owned()),
    };
    Ok(if is_text { Yaml::Text(text) } else { plain(text) })
}

macro_rules! pattern {
    ($name:ident = $pattern:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($pattern).ok());
    };
}

pattern!(TRUE = "^(?:yes|Yes|YES|true|True|TRUE|on|On|ON)$");
pattern!(FALSE = "^(?:no|No|NO|false|False|FALSE|off|Off|OFF)$");
pattern!(NULL = "^(?:~|null|Null|NULL|)$");
pattern!(
    NUMBER = concat!(
        r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?",
        r"|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?",
        r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*",
        r"|[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+",
        r"|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$",
    )
);
pattern!(SPECIAL_FLOAT = r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$");
pattern!(
    DATE = concat!(
        r"^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}",
        r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}",
        r"(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?)$",
    )
);

/// Parses a plain scalar by the rules of YAML 1.1.
fn plain(text: String) -> Yaml {
    let is = |pattern: &LazyLock<Option<Regex>>| {
        pattern.as_ref().is_some_and(|pattern| pattern.is_match(&text))
    };
    if is(&NULL) {
        return Yaml::Null;
    }
    if is(&NUMBER) {
        let digits = text.trim_start_matches(['-', '+']);
        let is_hexadecimal = digits.starts_with("0x");
        let digits = digits.strip_prefix("0x").or(digits.strip_prefix("0b")).unwrap_or(digits);
        let end = if is_hexadecimal { None } else { digits.find(['e', 'E']) };
        let mantissa = end.map_or(digits, |end| &digits[..end]);
        let is_falsy = !mantissa.contains(|c: char| c.is_ascii_hexdigit() && c != '0');
        return Yaml::Other { text, is_falsy };
    }
    let is_falsy = is(&FALSE);
    if is_falsy || is(&TRUE) || is(&SPECIAL_FLOAT) || is(&DATE) {
        return Yaml::Other { text, is_falsy };
    }
    Yaml::Text(text)
}

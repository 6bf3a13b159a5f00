//! JSON without duplicate keys of different values, for which most parsers take the last value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;

use ggmill_text::{read_json, two_values};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Parses JSON written by Python: with an optional byte order mark, and with `NaN`, `Infinity` and
/// `-Infinity`, which become `null`, as no hyperparameter has such a value.
///
/// ```
/// let limit: Vec<Option<f64>> = ggmill_pipeline::formats::json_from_slice(b"[0.0, -Infinity]")?;
/// assert_eq!(limit, [Some(0.0), None]);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn json_from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).or_else(|error| match without_infinities(bytes) {
        Some(bytes) if error.is_syntax() => serde_json::from_slice(&bytes),
        _ => Err(error),
    })
}

/// Replaces Python's words for infinities and NaN by `null`; `None` if there are none.
fn without_infinities(bytes: &[u8]) -> Option<Vec<u8>> {
    const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let mut plain = Vec::with_capacity(bytes.len());
    let (mut is_string, mut found) = (false, false);
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let word = WORDS.iter().find(|word| !is_string && rest.starts_with(word));
        if let Some(word) = word {
            plain.extend_from_slice(b"null");
            found = true;
            rest = &rest[word.len()..];
            continue;
        }
        plain.push(*first);
        rest = after;
        match first {
            b'"' => is_string = !is_string,
            // An escaped quote does not end the string.
            b'\\' if is_string => {
                if let [escaped, after @ ..] = rest {
                    plain.push(*escaped);
                    rest = after;
                }
            }
            _ => {}
        }
    }
    found.then_some(plain)
}

/// A JSON document in which duplicate keys of an object have equal values. Reading one that takes more
/// than 192 MiB of memory fails.
///
/// ```
/// use ggmill_pipeline::formats::Unambiguous;
/// assert!(serde_json::from_str::<Unambiguous>(r#"{"a": 1, "b": 2}"#).is_ok());
/// assert!(serde_json::from_str::<Unambiguous>(r#"{"a": 1, "a": 2}"#).is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a document and nothing else")]
pub struct Unambiguous(
    /// The document.
    pub Value,
);

/// Memory of a document in bytes. The largest of checkpoints, lists of added tokens of some megabytes,
/// take a tenth.
const MAX_DOCUMENT: usize = 192 << 20;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_json(deserializer, MAX_DOCUMENT).map(Self)
    }
}

/// Deserializes an object and fails for a key with two different values, for
/// `#[serde(deserialize_with)]`.
pub(crate) fn unique<'de, D, V>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de> + PartialEq,
{
    struct Unique<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de> + PartialEq> Visitor<'de> for Unique<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut object = BTreeMap::new();
            while let Some((key, value)) = entries.next_entry::<String, V>()? {
                match object.entry(key) {
                    Entry::Occupied(entry) if *entry.get() != value => {
                        return Err(two_values(entry.key()));
                    }
                    Entry::Occupied(_) => {}
                    Entry::Vacant(entry) => {
                        entry.insert(value);
                    }
                }
            }
            Ok(object)
        }
    }

    deserializer.deserialize_map(Unique(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_two_values_is_refused_at_any_depth() {
        let parse = |text: &str| {
            serde_json::from_str::<Unambiguous>(text)
                .map(|json| json.0)
                .map_err(|error| error.to_string())
        };
        for text in [
            "null",
            r#"{"a": [1, -1, 0.5, "b", true, {"c": {}}], "d": 18446744073709551615}"#,
            "[[[]]]",
        ] {
            assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        }
        assert_eq!(
            parse(r#"{"a": {"b": 1}, "a": {"b": 1}}"#).unwrap(),
            serde_json::json!({"a": {"b": 1}})
        );
        for text in [r#"{"a": 1, "a": 2}"#, r#"[{"b": {"a": 1, "\u0061": 1.0}}]"#] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("key \"a\" has two values"), "{error}");
        }
    }

    /// A few bytes of a file can take hundreds of bytes of memory.
    #[test]
    fn documents_that_take_too_much_memory_are_refused() {
        for (unit, fits) in [("{\"\":1},", false), ("{},", true), ("[],", true), ("\"\",", true)] {
            let text = format!("[{}0]", unit.repeat((2 << 20) / unit.len()));
            let found = serde_json::from_str::<Unambiguous>(&text);
            assert_eq!(found.is_ok(), fits, "{unit}");
            let text = format!("[{}0]", unit.repeat((16 << 20) / unit.len()));
            let error = serde_json::from_str::<Unambiguous>(&text).unwrap_err();
            assert!(error.to_string().contains("memory"), "{unit}: {error}");
        }
    }
}

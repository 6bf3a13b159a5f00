//! The merges of a BPE model, which a GGUF file lists as two parts separated by a space.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

/// One merge of `tokenizer.json`: `"a b"`, or `["a", "b"]` since parts may have spaces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Merge {
    Joined(String),
    Pair(String, String),
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyMerge;
        impl<'de> Visitor<'de> for AnyMerge {
            type Value = Merge;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a merge: two parts")
            }

            fn visit_str<E: Error>(self, merge: &str) -> Result<Merge, E> {
                Ok(Merge::Joined(merge.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Merge, A::Error> {
                match (
                    parts.next_element()?,
                    parts.next_element()?,
                    parts.next_element::<IgnoredAny>()?,
                ) {
                    (Some(left), Some(right), None) => Ok(Merge::Pair(left, right)),
                    _ => Err(A::Error::custom("a merge: expected two parts")),
                }
            }
        }
        deserializer.deserialize_any(AnyMerge)
    }
}

/// Returns the merges in the format of GGUF files. A space within a part is replaced by its
/// character in the byte-level alphabet.
pub(crate) fn joined(merges: &[Merge]) -> Vec<String> {
    let joined = |left: &str, right: &str| {
        let mut merge = String::with_capacity(left.len().saturating_add(right.len() + 1));
        merge.push_str(left);
        merge.push(' ');
        merge.push_str(right);
        merge
    };
    let without_spaces = |part: &str| part.replace(' ', "\u{120}");
    merges
        .iter()
        .map(|merge| match merge {
            Merge::Joined(merge) => merge.clone(),
            Merge::Pair(left, right) if left.contains(' ') || right.contains(' ') => {
                joined(&without_spaces(left), &without_spaces(right))
            }
            Merge::Pair(left, right) => joined(left, right),
        })
        .collect()
}

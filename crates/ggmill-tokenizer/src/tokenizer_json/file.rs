//! The file `tokenizer.json`.

use std::marker::PhantomData;

use ggmill_core::RawStr;
use ggmill_text::read_json;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{malformed, unsupported};
use crate::error::Error;

/// The most tokens a vocabulary can have; the largest in use have about 262,144.
pub const MAX_TOKENS: usize = 1 << 22;

/// A `tokenizer.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::exhaustive_structs, reason = "converters of older files build it")]
pub struct TokenizerJson {
    /// The vocabulary and the algorithm.
    pub model: Model,
    /// The tokens that the model does not have.
    #[serde(deserialize_with = "list")]
    pub added_tokens: Vec<ListedToken>,
    /// The normalizer, or null.
    #[serde(deserialize_with = "component")]
    pub normalizer: Value,
    /// The pre-tokenizer, or null.
    #[serde(deserialize_with = "component")]
    pub pre_tokenizer: Value,
    /// The post-processor, or null.
    #[serde(deserialize_with = "component")]
    pub post_processor: Value,
    /// The decoder, or null.
    #[serde(deserialize_with = "component")]
    pub decoder: Value,
}

/// An added token with the ID that the file states.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Listed")]
#[non_exhaustive]
pub struct ListedToken {
    /// The ID.
    pub id: u32,
    /// The token.
    pub token: AddedToken,
}

/// The members of a listed token. Not flattened: serde would collect members that are not used.
#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "flags as the file has them")]
struct Listed {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

impl From<Listed> for ListedToken {
    fn from(listed: Listed) -> Self {
        let Listed { id, content, single_word, lstrip, rstrip, normalized, special } = listed;
        Self { id, token: AddedToken { content, single_word, lstrip, rstrip, normalized, special } }
    }
}

/// An added token: one that is not in the vocabulary of the model, or has flags.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "flags as the file has them")]
#[expect(clippy::exhaustive_structs, reason = "the flags of the library")]
pub struct AddedToken {
    /// Its text.
    pub content: String,
    /// It is found only between characters that are not part of a word.
    #[serde(default)]
    pub single_word: bool,
    /// It includes the whitespace before it.
    #[serde(default)]
    pub lstrip: bool,
    /// It includes the whitespace after it.
    #[serde(default)]
    pub rstrip: bool,
    /// It is found in the normalized text.
    #[serde(default)]
    pub normalized: bool,
    /// It is a special token.
    #[serde(default)]
    pub special: bool,
}

impl AddedToken {
    /// Creates a token with the flags that the library sets by default.
    pub fn new(content: &str, special: bool) -> Self {
        Self {
            content: content.to_owned(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: !special,
            special,
        }
    }

    /// Creates a token with the flags of a configuration.
    pub fn with_flags(content: &str, flags: &Map<String, Value>) -> Self {
        let flag = |name: &str| flags.get(name).and_then(Value::as_bool);
        let token = Self::new(content, flag("special").unwrap_or_default());
        Self {
            single_word: flag("single_word").unwrap_or_default(),
            lstrip: flag("lstrip").unwrap_or_default(),
            rstrip: flag("rstrip").unwrap_or_default(),
            normalized: flag("normalized").unwrap_or(token.normalized),
            ..token
        }
    }
}

/// The model of a tokenizer: its algorithm and vocabulary. Members that other algorithms have are
/// absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::exhaustive_structs, reason = "converters of older files build it")]
pub struct Model {
    /// The name of the algorithm. Old files have no such member.
    #[serde(deserialize_with = "stated")]
    pub r#type: Option<Value>,
    /// The tokens.
    pub vocab: Vocab,
    /// The merges of BPE, in the order of their ranks.
    #[serde(deserialize_with = "merges")]
    pub merges: Option<Vec<Merge>>,
    /// BPE encodes a character that has no token as its bytes.
    pub byte_fallback: Option<bool>,
    /// BPE does not merge a piece that is a token.
    pub ignore_merges: Option<bool>,
    /// BPE encodes consecutive unknown characters as one unknown token.
    pub fuse_unk: Option<bool>,
    /// The probability with which BPE omits a merge.
    pub dropout: Option<f64>,
    /// The unknown token.
    pub unk_token: Option<String>,
    /// The ID of the unknown token of a unigram model.
    pub unk_id: Option<u32>,
    /// The longest word of WordPiece in characters; longer ones are the unknown token.
    pub max_input_chars_per_word: Option<u64>,
    /// The prefix of tokens that continue a word.
    pub continuing_subword_prefix: Option<String>,
    /// The suffix of the last character of a piece.
    pub end_of_word_suffix: Option<String>,
}

/// Reads a member of any type. A member that is `null` differs from an absent one.
fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    component(deserializer).map(Some)
}

/// Memory of a component in bytes. The largest part of one is a character map of 300 KB.
const MAX_COMPONENT: usize = 16 << 20;

/// Reads a component, of which only the few members of each kind are used.
fn component<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    read_json(deserializer, MAX_COMPONENT)
}

/// Reads merges; `null` is none.
fn merges<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Merge>>, D::Error> {
    #[derive(Deserialize)]
    struct Merges(#[serde(deserialize_with = "list")] Vec<Merge>);
    Ok(Option::<Merges>::deserialize(deserializer)?.map(|merges| merges.0))
}

/// Reads a list of at most [`MAX_TOKENS`] elements.
fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let mut found = Vec::new();
            while let Some(element) = elements.next_element()? {
                if found.len() >= MAX_TOKENS {
                    return Err(A::Error::custom(format!("more than {MAX_TOKENS} elements")));
                }
                found.push(element);
            }
            Ok(found)
        }
    }
    deserializer.deserialize_any(List(PhantomData))
}

/// An algorithm of the `tokenizers` library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelKind {
    /// Byte-pair encoding.
    Bpe,
    /// WordPiece.
    WordPiece,
    /// A token for each word.
    WordLevel,
    /// Unigram.
    Unigram,
}

impl ModelKind {
    /// All algorithms, in the order in which the library tries them for a model without a type.
    const ALL: [Self; 4] = [Self::Bpe, Self::WordPiece, Self::WordLevel, Self::Unigram];

    /// Returns its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bpe => "BPE",
            Self::WordPiece => "WordPiece",
            Self::WordLevel => "WordLevel",
            Self::Unigram => "Unigram",
        }
    }

    /// Returns a phrase that lists the names.
    fn expected() -> String {
        let [first, second, third, last] = Self::ALL.map(Self::name);
        format!("expected {first}, {second}, {third} or {last}")
    }
}

impl Model {
    /// Returns the merges, or none if the file has no such member.
    pub fn merges(&self) -> &[Merge] {
        self.merges.as_deref().unwrap_or_default()
    }

    /// Returns the algorithm as the library recognizes it: by the type, or by the members if there
    /// is no type.
    ///
    /// Fails if the library would not read the model, and names the missing members.
    pub fn kind(&self) -> Result<ModelKind, Error> {
        let Some(stated) = &self.r#type else {
            let found = ModelKind::ALL.into_iter().find(|kind| self.missing(*kind).is_empty());
            return found.ok_or_else(|| {
                let needs = ModelKind::ALL.map(|kind| {
                    format!("without {} it is not {}", self.missing(kind).join(", "), kind.name())
                });
                malformed(format!("the model has no type: {}", needs.join(", ")))
            });
        };
        let expected = ModelKind::expected();
        let name = stated.as_str().ok_or_else(|| {
            let found = if stated.is_null() { "null" } else { "not a string" };
            malformed(format!("the type of the model is {found}, {expected}"))
        })?;
        let kind = ModelKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| {
            unsupported(format!("the type of the model is {:?}, {expected}", RawStr::from(name)))
        })?;
        match &*self.missing(kind) {
            [] => Ok(kind),
            missing => {
                let message = format!("the model is {name}, but has no {}", missing.join(", no "));
                Err(malformed(message))
            }
        }
    }

    /// Returns the members that an algorithm needs and the file does not have.
    fn missing(&self, kind: ModelKind) -> Vec<&'static str> {
        let has_tokens = !self.vocab.tokens.is_empty();
        let has_scores = has_tokens && self.vocab.scores.len() == self.vocab.tokens.len();
        let vocab = ("vocab", has_tokens && !has_scores);
        let unknown = ("unk_token", self.unk_token.is_some());
        let needed = match kind {
            ModelKind::Bpe => vec![vocab, ("merges", self.merges.is_some())],
            ModelKind::WordPiece => vec![
                vocab,
                unknown,
                ("continuing_subword_prefix", self.continuing_subword_prefix.is_some()),
                ("max_input_chars_per_word", self.max_input_chars_per_word.is_some()),
            ],
            ModelKind::WordLevel => vec![vocab, unknown],
            ModelKind::Unigram => vec![("vocab with scores", has_scores)],
        };
        needed.into_iter().filter(|(_, is_present)| !is_present).map(|(name, _)| name).collect()
    }

    /// Returns `true` for WordPiece. A model that was converted from other files may lack members
    /// that [`kind`](Self::kind) requires.
    pub(super) fn is_word_piece(&self) -> bool {
        match &self.r#type {
            Some(name) => name.as_str() == Some(ModelKind::WordPiece.name()),
            None => self.kind().is_ok_and(|kind| kind == ModelKind::WordPiece),
        }
    }
}

/// The tokens of a model.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "converters of older files build it")]
pub struct Vocab {
    /// Tokens with their IDs, in the order of the file.
    pub tokens: Vec<(String, u32)>,
    /// A score for each token of a unigram model; empty for other models.
    pub scores: Vec<f64>,
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyVocab;
        impl<'de> Visitor<'de> for AnyVocab {
            type Value = Vocab;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a vocabulary: tokens with IDs, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Vocab, A::Error> {
                let mut found = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    if found.len() >= MAX_TOKENS {
                        return Err(A::Error::custom(format!("more than {MAX_TOKENS} tokens")));
                    }
                    found.push(entry);
                }
                Ok(Vocab { tokens: found, scores: Vec::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vocab, A::Error> {
                let mut found = Vocab::default();
                while let Some((token, score)) = elements.next_element::<(String, f64)>()? {
                    let id = u32::try_from(found.tokens.len()).unwrap_or(u32::MAX);
                    if found.tokens.len() >= MAX_TOKENS {
                        return Err(A::Error::custom(format!("more than {MAX_TOKENS} tokens")));
                    }
                    found.tokens.push((token, id));
                    found.scores.push(score);
                }
                Ok(found)
            }
        }
        deserializer.deserialize_any(AnyVocab)
    }
}

/// A merge: `"a b"`, or `["a", "b"]` in files whose parts may contain spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two forms of the file")]
pub enum Merge {
    /// Both parts, separated by a space.
    Joined(String),
    /// The left and the right part.
    Pair(String, String),
}

impl Merge {
    /// Returns the merge as GGUF files list it: both parts, separated by a space. A space within a
    /// part is written as in the byte-level alphabet.
    pub fn to_gguf(&self) -> String {
        match self {
            Self::Joined(merge) => merge.clone(),
            Self::Pair(left, right) => {
                let escape = |part: &str| part.replace(' ', "\u{120}");
                format!("{} {}", escape(left), escape(right))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyMerge;
        impl<'de> Visitor<'de> for AnyMerge {
            type Value = Merge;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a merge: two parts")
            }

            fn visit_str<E: serde::de::Error>(self, merge: &str) -> Result<Merge, E> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The expected results are those of the `tokenizers` library (0.22.1).
    #[test]
    fn the_algorithm_is_recognized_as_in_the_library() {
        let pairs = json!({ "a": 0, "b": 1 });
        let pieces = json!({ "vocab": pairs, "unk_token": "b", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100 });
        let with = |model: &Value, name: &str, value: Value| {
            let mut model = model.clone();
            model[name] = value;
            model
        };
        let without = |model: &Value, name: &str| {
            let mut model = model.clone();
            model.as_object_mut().unwrap().remove(name);
            model
        };
        let bpe = json!({ "vocab": pairs, "merges": [] });
        let scored = json!({ "vocab": [["a", 0.0], ["b", -1.0]] });
        let kind_of = |model: Value| {
            let model: Model = serde_json::from_value(model).unwrap();
            model.kind().map(ModelKind::name).map_err(|error| error.to_string())
        };
        for (model, expected) in [
            (bpe.clone(), "BPE"),
            (with(&bpe, "type", json!("BPE")), "BPE"),
            (with(&pieces, "merges", json!([])), "BPE"),
            (pieces.clone(), "WordPiece"),
            (with(&pieces, "type", json!("WordPiece")), "WordPiece"),
            (without(&pieces, "max_input_chars_per_word"), "WordLevel"),
            (with(&pieces, "type", json!("WordLevel")), "WordLevel"),
            (scored.clone(), "Unigram"),
            (with(&scored, "type", json!("Unigram")), "Unigram"),
        ] {
            assert_eq!(kind_of(model.clone()).as_deref(), Ok(expected), "{model}");
        }
        for (model, words) in [
            (
                without(&bpe, "merges"),
                "the model has no type: without merges it is not BPE, without unk_token, \
                 continuing_subword_prefix, max_input_chars_per_word it is not WordPiece, without \
                 unk_token it is not WordLevel, without vocab with scores it is not Unigram",
            ),
            (json!({}), "the model has no type: without vocab, merges it is not BPE"),
            (with(&bpe, "type", Value::Null), "the type of the model is null, expected BPE, Word"),
            (with(&bpe, "type", json!("X")), "the type of the model is \"X\", expected BPE"),
            (json!({ "type": "BPE", "vocab": pairs }), "the model is BPE, but has no merges"),
            (json!({ "type": "BPE" }), "the model is BPE, but has no vocab, no merges"),
            (with(&bpe, "type", json!("Unigram")), "Unigram, but has no vocab with scores"),
            (
                without(&with(&pieces, "type", json!("WordPiece")), "unk_token"),
                "the model is WordPiece, but has no unk_token",
            ),
        ] {
            let fault = kind_of(model.clone()).unwrap_err();
            assert!(fault.contains(words), "{model}: {fault}");
        }
    }
}

//! `tokenizer.json`, the file of the `tokenizers` library.

use ggmill_core::RawStr;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::merges::Merge;
use super::tokens::MAX_TOKENS;

/// A `tokenizer.json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TokenizerJson {
    #[serde(default)]
    pub(crate) model: Algorithm,
    #[serde(default)]
    pub(crate) added_tokens: Vec<ListedToken>,
    #[serde(default)]
    pub(crate) normalizer: Value,
    #[serde(default)]
    pub(crate) pre_tokenizer: Value,
    #[serde(default)]
    pub(crate) post_processor: Value,
    #[serde(default)]
    pub(crate) decoder: Value,
}

/// A token beside the model's own, with the ID it should have.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ListedToken {
    pub(crate) id: u32,
    #[serde(flatten)]
    pub(crate) token: AddedToken,
}

/// A token beside the model's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "flags as the file has them")]
pub(crate) struct AddedToken {
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) single_word: bool,
    #[serde(default)]
    pub(crate) lstrip: bool,
    #[serde(default)]
    pub(crate) rstrip: bool,
    #[serde(default)]
    pub(crate) normalized: bool,
    #[serde(default)]
    pub(crate) special: bool,
}

impl AddedToken {
    /// A token with the flags that one has of which nothing else is said.
    pub(crate) fn new(content: &str, special: bool) -> Self {
        Self {
            content: content.to_owned(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: !special,
            special,
        }
    }

    /// The same with the flags that a configuration has.
    pub(crate) fn with_flags(content: &str, flags: &Map<String, Value>) -> Self {
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

/// How text becomes tokens; the file calls it a model.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Algorithm {
    /// Its name; old files leave it out.
    #[serde(default, deserialize_with = "stated")]
    pub(crate) r#type: Option<Value>,
    #[serde(default)]
    pub(crate) vocab: Vocab,
    #[serde(default)]
    pub(crate) merges: Option<Vec<Merge>>,
    #[serde(default)]
    pub(crate) byte_fallback: Option<bool>,
    #[serde(default)]
    pub(crate) ignore_merges: Option<bool>,
    #[serde(default)]
    pub(crate) fuse_unk: Option<bool>,
    #[serde(default)]
    pub(crate) unk_token: Option<String>,
    #[serde(default)]
    pub(crate) unk_id: Option<u32>,
    #[serde(default)]
    pub(crate) max_input_chars_per_word: Option<u64>,
    #[serde(default)]
    pub(crate) continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub(crate) end_of_word_suffix: Option<String>,
}

/// An existing member of any kind: `null` is not the same as none.
fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The algorithms that the `tokenizers` library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlgorithmKind {
    Bpe,
    WordPiece,
    WordLevel,
    Unigram,
}

impl AlgorithmKind {
    /// In the order in which the library tries them where a file names none.
    const ALL: [Self; 4] = [Self::Bpe, Self::WordPiece, Self::WordLevel, Self::Unigram];

    /// Its name in a file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bpe => "BPE",
            Self::WordPiece => "WordPiece",
            Self::WordLevel => "WordLevel",
            Self::Unigram => "Unigram",
        }
    }

    /// The names, as a list of what is expected.
    fn expected() -> String {
        let [first, second, third, last] = Self::ALL.map(Self::name);
        format!("expected {first}, {second}, {third} or {last}")
    }
}

impl Algorithm {
    /// The merges; none where the file has no such member.
    pub(crate) fn merges(&self) -> &[Merge] {
        self.merges.as_deref().unwrap_or_default()
    }

    /// Which algorithm it is, as the library tells: by its type, and without one by the members
    /// that it has. Fails with what is missing where the library would not read it.
    pub(crate) fn kind(&self) -> Result<AlgorithmKind, String> {
        let Some(stated) = &self.r#type else {
            let found = AlgorithmKind::ALL.into_iter().find(|kind| self.missing(*kind).is_empty());
            return found.ok_or_else(|| {
                let needs = AlgorithmKind::ALL.map(|kind| {
                    format!("without {} it is not {}", self.missing(kind).join(", "), kind.name())
                });
                format!("the model has no type: {}", needs.join(", "))
            });
        };
        let expected = AlgorithmKind::expected();
        let name = stated.as_str().ok_or_else(|| {
            let found = if stated.is_null() { "null" } else { "not a string" };
            format!("the type of the model is {found}, {expected}")
        })?;
        let kind = AlgorithmKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| {
            format!("the type of the model is {:?}, {expected}", RawStr::from(name))
        })?;
        match &*self.missing(kind) {
            [] => Ok(kind),
            missing => Err(format!("the model is {name}, but has no {}", missing.join(", no "))),
        }
    }

    /// What an algorithm needs and the file does not have.
    fn missing(&self, kind: AlgorithmKind) -> Vec<&'static str> {
        let has_tokens = !self.vocab.0.is_empty();
        let has_scores = has_tokens && self.vocab.1.len() == self.vocab.0.len();
        let vocab = ("vocab", has_tokens && !has_scores);
        let unknown = ("unk_token", self.unk_token.is_some());
        let needed = match kind {
            AlgorithmKind::Bpe => vec![vocab, ("merges", self.merges.is_some())],
            AlgorithmKind::WordPiece => vec![
                vocab,
                unknown,
                ("continuing_subword_prefix", self.continuing_subword_prefix.is_some()),
                ("max_input_chars_per_word", self.max_input_chars_per_word.is_some()),
            ],
            AlgorithmKind::WordLevel => vec![vocab, unknown],
            AlgorithmKind::Unigram => vec![("vocab with scores", has_scores)],
        };
        needed.into_iter().filter(|(_, is_there)| !is_there).map(|(name, _)| name).collect()
    }

    /// Whether it is a WordPiece model; one that is made of other files may lack what a file needs.
    pub(crate) fn is_word_piece(&self) -> bool {
        match &self.r#type {
            Some(name) => name.as_str() == Some(AlgorithmKind::WordPiece.name()),
            None => self.kind() == Ok(AlgorithmKind::WordPiece),
        }
    }
}

/// The tokens of a model with their IDs, and their scores where they are a list with scores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vocab(pub(crate) Vec<(String, u32)>, pub(crate) Vec<f32>);

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
                Ok(Vocab(found, Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vocab, A::Error> {
                let mut found = Vocab::default();
                while let Some((token, score)) = elements.next_element::<(String, f64)>()? {
                    let id = u32::try_from(found.0.len()).unwrap_or(u32::MAX);
                    if found.0.len() >= MAX_TOKENS {
                        return Err(A::Error::custom(format!("more than {MAX_TOKENS} tokens")));
                    }
                    found.0.push((token, id));
                    #[expect(clippy::cast_possible_truncation, reason = "as a file has scores")]
                    found.1.push(score as f32);
                }
                Ok(found)
            }
        }
        deserializer.deserialize_any(AnyVocab)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the `tokenizers` library (0.22.1) reads each of these as, and what is said where it
    /// fails.
    #[test]
    fn a_model_is_told_as_the_library_tells_it() {
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
        let told = |model: Value| {
            let model: Algorithm = serde_json::from_value(model).unwrap();
            model.kind().map(AlgorithmKind::name)
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
            assert_eq!(told(model.clone()), Ok(expected), "{model}");
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
            let fault = told(model.clone()).unwrap_err();
            assert!(fault.contains(words), "{model}: {fault}");
        }
    }
}

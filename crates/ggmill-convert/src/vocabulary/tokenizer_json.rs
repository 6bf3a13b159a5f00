//! `tokenizer.json`, the file of the `tokenizers` library.

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
    /// `BPE`, `WordPiece`, `Unigram` or `WordLevel`; old files leave it out.
    #[serde(default)]
    pub(crate) r#type: Option<String>,
    #[serde(default)]
    pub(crate) vocab: Vocab,
    #[serde(default)]
    pub(crate) merges: Vec<Merge>,
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

impl Algorithm {
    /// Whether it is a WordPiece model; without a name, by what only such a model has.
    pub(crate) fn is_word_piece(&self) -> bool {
        let of_word_piece = self.max_input_chars_per_word.is_some() && self.merges.is_empty();
        self.r#type.as_deref().map_or(of_word_piece, |name| name == "WordPiece")
    }

    /// Whether it is a BPE model.
    pub(crate) fn is_bpe(&self) -> bool {
        self.r#type.as_deref().map_or(!self.merges.is_empty(), |name| name == "BPE")
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

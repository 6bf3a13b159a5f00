//! The shape of a description file: what TOML is allowed to say, before anything is understood.

use core::fmt;
use core::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// The schema every description names, so that a later one can be told apart.
pub(crate) const SCHEMA: &str = "ggmill.architecture/1";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawArchitecture {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) loader: Option<String>,
    #[serde(default)]
    pub(crate) include: Vec<String>,
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    #[serde(default)]
    pub(crate) checkpoint: Vec<RawCheckpoint>,
    #[serde(default)]
    pub(crate) parameters: Ordered<RawParameter>,
    #[serde(default)]
    pub(crate) keys: Ordered<RawKey>,
    #[serde(default)]
    pub(crate) tensors: Vec<RawGroup>,
    #[serde(default)]
    pub(crate) vocabulary: Option<RawVocabulary>,
    #[serde(default)]
    pub(crate) contradiction: Vec<RawRemark>,
    #[serde(default)]
    pub(crate) refuse: Vec<RawRemark>,
    #[serde(default)]
    pub(crate) warn: Vec<RawRemark>,
}

/// Parts that several architectures share: their descriptions include it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPart {
    pub(crate) schema: String,
    #[serde(default)]
    pub(crate) parameters: Ordered<RawParameter>,
    #[serde(default)]
    pub(crate) keys: Ordered<RawKey>,
    #[serde(default)]
    pub(crate) tensors: Vec<RawGroup>,
    #[serde(default)]
    pub(crate) contradiction: Vec<RawRemark>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCheckpoint {
    pub(crate) classes: Vec<String>,
    #[serde(default)]
    pub(crate) model_types: Vec<String>,
    #[serde(default)]
    pub(crate) defaults: Ordered<RawExpression>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawParameter {
    pub(crate) r#type: String,
    #[serde(default)]
    pub(crate) from: Vec<String>,
    #[serde(default)]
    pub(crate) keys: Vec<String>,
    #[serde(default)]
    pub(crate) default: Option<RawExpression>,
    #[serde(default)]
    pub(crate) in_file: Option<RawExpression>,
    #[serde(default)]
    pub(crate) optional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawKey {
    pub(crate) r#type: String,
    #[serde(default)]
    pub(crate) value: Option<RawExpression>,
    #[serde(default)]
    pub(crate) optional: bool,
    #[serde(default)]
    pub(crate) required: Option<RawRequired>,
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawVocabulary {
    pub(crate) kinds: Vec<String>,
    #[serde(default)]
    pub(crate) space_prefix: RawSpacePrefix,
    #[serde(default)]
    pub(crate) size: Option<RawExpression>,
    #[serde(default)]
    pub(crate) pre: Option<String>,
    #[serde(default)]
    pub(crate) builtin: Option<String>,
    #[serde(default)]
    pub(crate) template: RawTemplate,
    #[serde(default)]
    pub(crate) builtin_template: Option<String>,
    #[serde(default)]
    pub(crate) added_tokens: RawAddedTokens,
    #[serde(default)]
    pub(crate) control: Vec<String>,
    #[serde(default)]
    pub(crate) user_defined: Vec<String>,
    #[serde(default)]
    pub(crate) special_tokens: Ordered<RawToken>,
    #[serde(default)]
    pub(crate) special_tokens_if_none: Ordered<RawToken>,
    #[serde(default)]
    pub(crate) replaced_special_tokens: Ordered<RawToken>,
    #[serde(default)]
    pub(crate) last_special_tokens: Ordered<RawToken>,
    #[serde(default)]
    pub(crate) pieces: RawPieces,
    #[serde(default)]
    pub(crate) ranks: Option<RawRanks>,
    #[serde(default)]
    pub(crate) keys_before: Ordered<RawKey>,
    #[serde(default)]
    pub(crate) keys: Ordered<RawKey>,
    #[serde(default)]
    pub(crate) by_kind: Ordered<RawVocabularyKind>,
}

/// When `add_prefix_space` becomes a key; `true` is before the vocabulary.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "expected true, false, \"after-tokens\" or \"last\"")]
pub(crate) enum RawSpacePrefix {
    Flag(bool),
    Place(RawSpacePrefixPlace),
}

impl Default for RawSpacePrefix {
    fn default() -> Self {
        Self::Flag(false)
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawSpacePrefixPlace {
    AfterTokens,
    Last,
}

/// Whether a chat template of its own file replaces one of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawTemplate {
    #[default]
    ConfigFirst,
    FileFirst,
}

/// What becomes of the texts and types of added tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawAddedTokens {
    #[default]
    Normalized,
    Decoded,
    Plain,
}

/// A token: its ID, or its text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected the text of a token, or its ID")]
pub(crate) enum RawToken {
    Id(u32),
    Text(String),
}

/// What is special about the pieces of a SentencePiece model.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPieces {
    #[serde(default)]
    pub(crate) added: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) appended: bool,
    #[serde(default)]
    pub(crate) added_score: Option<f32>,
    #[serde(default)]
    pub(crate) special_score: Option<f32>,
    #[serde(default)]
    pub(crate) unused_prefix: Option<String>,
    #[serde(default)]
    pub(crate) nul: Option<String>,
    #[serde(default)]
    pub(crate) dummy_prefix: bool,
    #[serde(default)]
    pub(crate) mask: Option<u32>,
}

/// A vocabulary in a rank file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRanks {
    pub(crate) file: String,
    #[serde(default)]
    pub(crate) special: Vec<String>,
    #[serde(default)]
    pub(crate) reserved: Option<String>,
    #[serde(default)]
    pub(crate) reserved_count: u32,
}

/// What is special about one kind of vocabulary.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawVocabularyKind {
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    #[serde(default)]
    pub(crate) tokenizer_classes: Vec<String>,
    #[serde(default)]
    pub(crate) keys_before: Ordered<RawKey>,
    #[serde(default)]
    pub(crate) keys: Ordered<RawKey>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGroup {
    #[serde(default)]
    pub(crate) r#for: Option<String>,
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    pub(crate) tensor: Ordered<RawTensor>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTensor {
    pub(crate) shape: Vec<RawExpression>,
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) from: Vec<RawSource>,
    #[serde(default)]
    pub(crate) operations: Vec<String>,
    #[serde(default)]
    pub(crate) compute: Option<String>,
    #[serde(default)]
    pub(crate) required: Option<RawExpression>,
    #[serde(default)]
    pub(crate) when: Option<RawExpression>,
    #[serde(default)]
    pub(crate) tied: Option<String>,
    #[serde(default)]
    pub(crate) unless: Option<String>,
    #[serde(default)]
    pub(crate) keep_f32: Option<bool>,
    #[serde(default)]
    pub(crate) together: Option<String>,
}

/// Who requires a key of a file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawRequired {
    Loader,
    Specification,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a name, or a table with name or names and, where needed, for and \
                 operations"
)]
pub(crate) enum RawSource {
    Name(String),
    Table(RawSourceTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSourceTable {
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) names: Vec<String>,
    #[serde(default)]
    pub(crate) r#for: Option<String>,
    #[serde(default)]
    pub(crate) operations: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) parts: Vec<RawSource>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRemark {
    pub(crate) when: String,
    pub(crate) because: String,
}

/// An expression, or a plain number or bool, which needs no quotes.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected an expression in quotes, a number, true or false")]
pub(crate) enum RawExpression {
    Text(String),
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl RawExpression {
    /// The text of the expression. A plain value becomes the text that means it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => format!("{value:?}"),
        }
    }
}

/// A table whose entries stay in the order of the file.
#[derive(Debug)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

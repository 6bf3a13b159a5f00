//! `tokenizer.json`, the file of the `tokenizers` library.

use serde::Deserialize;
use serde_json::Value;

use super::merges::Merge;

/// A `tokenizer.json`, as far as a GGUF file says what it says.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TokenizerJson {
    #[serde(default)]
    pub(crate) model: Model,
    #[serde(default)]
    pub(crate) added_tokens: Vec<AddedToken>,
    #[serde(default)]
    pub(crate) normalizer: Value,
    #[serde(default)]
    pub(crate) post_processor: Value,
}

/// A token beside the model's own.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AddedToken {
    pub(crate) id: u32,
    pub(crate) content: String,
}

/// The model: how text becomes tokens.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Model {
    #[serde(default)]
    pub(crate) merges: Vec<Merge>,
}

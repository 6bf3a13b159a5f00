//! Edits of metadata that leave the tensors as they are.
//!
//! [`edit_metadata`] applies [`Edit`]s in order. An [`EditPlan`] decides how the new header gets into
//! the file, and an [`Editor`] writes it.

mod document;
mod error;
mod file;
mod metadata;
mod value;

use ggmill_core::ToValue;
use ggmill_text::Glob;

pub use document::{extract_metadata, value_json};
pub use error::{EditError, EditSyntaxError, ValueError};
pub use file::{Destination, EditMethod, EditPlan, Editor};
pub use metadata::{Edited, FILLER_KEY, KeyChange, edit_metadata};
pub use value::{EditValue, KeyType, KeyTypeError, TypedValue};

/// One change to the metadata of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Sets a key to a value: in place if the key exists, otherwise at the end.
    ///
    /// A typed value keeps its type. Text and JSON without a type get the type of the present value,
    /// else the standard type of the key by the specification or the architecture, else the type
    /// inferred from the value.
    Set {
        /// The key.
        key: String,
        /// The declared type.
        key_type: Option<KeyType>,
        /// The value.
        value: EditValue,
    },
    /// Sets one element of an array that exists, in its element type.
    SetElement {
        /// The key of the array.
        key: String,
        /// The index, from 0.
        index: u64,
        /// The value.
        value: EditValue,
    },
    /// Removes every key that matches a pattern. At least one has to.
    Unset(Glob),
    /// Renames a key; it keeps its place. No key with the new name may exist.
    Rename {
        /// The present name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Sets a special token (`bos`, `eos`, `pad`, …) to the token with this text.
    SpecialToken {
        /// The short name of the role.
        role: String,
        /// The token's text.
        token: String,
    },
    /// Sets a special token to the token with this ID.
    SpecialTokenId {
        /// The short name of the role.
        role: String,
        /// The token's ID.
        id: u32,
    },
    /// Replaces the vocabulary. The number of tokens must be that of the present vocabulary or the
    /// number of rows of the embedding.
    Tokens(Vec<String>),
}

impl Edit {
    /// Returns an edit that sets a key to a value of a Rust type, or to an array for a slice. The type
    /// of the present value does not matter.
    ///
    /// ```
    /// use ggmill_core::MetadataBuf;
    /// use ggmill_edit::{Edit, edit_metadata};
    /// let mut metadata = MetadataBuf::new();
    /// metadata.set("general.architecture", "llama");
    /// metadata.set("general.version", 1u32);
    /// let edits = [Edit::set("general.version", &"1.1"), Edit::set("general.tags", &["text", "tiny"].as_slice())];
    /// let edited = edit_metadata(&metadata, &edits, None)?;
    /// assert_eq!(edited.metadata().get("general.version").and_then(|value| value.as_str()), Some("1.1"));
    /// # Ok::<(), ggmill_pipeline::Error>(())
    /// ```
    pub fn set(key: impl Into<String>, value: &impl ToValue) -> Self {
        Self::Set {
            key: key.into(),
            key_type: None,
            value: EditValue::Typed(TypedValue::new(value)),
        }
    }

    /// Parses `key=value` or `key:type=value`, or `key[5]=value` for the element of an array with this
    /// index, from 0.
    ///
    /// ```
    /// use ggmill_edit::{Edit, EditValue};
    /// let edit = Edit::parse_set("llama.rope.freq_base:f32=10000")?;
    /// let expected = Edit::Set {
    ///     key: "llama.rope.freq_base".into(),
    ///     key_type: Some("f32".parse()?),
    ///     value: EditValue::Text("10000".into()),
    /// };
    /// assert_eq!(edit, expected);
    /// # Ok::<(), ggmill_edit::EditSyntaxError>(())
    /// ```
    pub fn parse_set(text: &str) -> Result<Self, EditSyntaxError> {
        let (left, value) = text.split_once('=').ok_or(EditSyntaxError::NoValue)?;
        if let Some((key, index)) = parse_element(left.trim())? {
            let value = EditValue::Text(value.to_owned());
            return Ok(Self::SetElement { key: key.to_owned(), index, value });
        }
        let (key, key_type) = match left.rsplit_once(':') {
            Some((key, name)) => (key, Some(name.trim().parse()?)),
            None => (left, None),
        };
        Ok(Self::Set {
            key: key.trim().to_owned(),
            key_type,
            value: EditValue::Text(value.to_owned()),
        })
    }

    /// Parses a pattern of keys to remove, such as `general.base_model.*`.
    pub fn parse_unset(pattern: &str) -> Result<Self, EditSyntaxError> {
        pattern
            .parse()
            .map(Self::Unset)
            .map_err(|cause| EditSyntaxError::Glob { pattern: pattern.to_owned(), cause })
    }
}

/// Returns the key and the index of `key[5]`; `None` for text without an index at its end. Fails if
/// the text in brackets is not an index, or if a type follows.
///
/// ```
/// use ggmill_edit::parse_element;
/// assert_eq!(parse_element("tokenizer.ggml.scores[5]")?, Some(("tokenizer.ggml.scores", 5)));
/// assert_eq!(parse_element("tokenizer.ggml.scores:[f32]")?, None);
/// # Ok::<(), ggmill_edit::EditSyntaxError>(())
/// ```
pub fn parse_element(text: &str) -> Result<Option<(&str, u64)>, EditSyntaxError> {
    // A type in brackets, as in key:[u32], is not an index.
    let Some((key, index)) = text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) else {
        // A type must not follow an index.
        let is_typed = text.rsplit_once(':').is_some_and(|(key, _)| {
            let index = key.strip_suffix(']').and_then(|key| key.rsplit_once('['));
            index.is_some_and(|(_, index)| index.bytes().all(|byte| byte.is_ascii_digit()))
        });
        return if is_typed { Err(EditSyntaxError::Element) } else { Ok(None) };
    };
    if key.is_empty() || key.contains([':', '[']) {
        return Ok(None);
    }
    index.parse().map(|index| Some((key, index))).map_err(|_| EditSyntaxError::Element)
}

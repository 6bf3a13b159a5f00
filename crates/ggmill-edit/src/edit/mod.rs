//! Changing what a file says about a model, without touching its tensors.
//!
//! [`Edit`]s are applied to the metadata one after another ([`edit_metadata`]); [`EditPlan`] says
//! how the header gets into the file; [`Editor`] does it.

mod apply;
mod document;
mod editor;
mod error;
mod key_type;
mod layout;
mod limits;
mod shown;
mod standard;
mod value;

use ggmill_core::ToValue;
use ggmill_text::Glob;

pub use apply::{Edited, KeyChange, edit_metadata};
pub use editor::Editor;
pub use error::{EditError, EditSyntaxError, ValueError};
pub use key_type::{KeyType, KeyTypeError};
pub use layout::{Destination, EditMethod, EditPlan};
pub use limits::FILLER_KEY;
pub use value::{EditValue, TypedValue};

/// One change to the metadata of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Gives a key a value, in place if it exists, otherwise at the end.
    ///
    /// A typed value keeps its type. Text and JSON without a type get that of the present value,
    /// else the one the key has by the specification or the architecture, else the one they
    /// look like.
    Set {
        /// The key.
        key: String,
        /// The type, where it was given.
        key_type: Option<KeyType>,
        /// The value.
        value: EditValue,
    },
    /// Sets one element of an array, in the type of its elements. There must be such an array.
    SetElement {
        /// The key of the array.
        key: String,
        /// Which element, from 0.
        index: u64,
        /// The value.
        value: EditValue,
    },
    /// Removes every key that fits a pattern. There must be one.
    Unset(Glob),
    /// Gives a key another name, in its place. There must be none of that name.
    Rename {
        /// The key as it is.
        from: String,
        /// The key as it shall be.
        to: String,
    },
    /// Makes a token of the vocabulary, named by its text, a special one: `bos`, `eos`, `pad`, ….
    SpecialToken {
        /// The short name of its role.
        role: String,
        /// The token's text.
        token: String,
    },
    /// Makes a token of the vocabulary, named by its ID, a special one.
    SpecialTokenId {
        /// The short name of its role.
        role: String,
        /// The token's ID.
        id: u32,
    },
    /// Replaces the vocabulary: as many tokens as before, or as many as the embedding has rows.
    Tokens(Vec<String>),
}

impl Edit {
    /// Gives a key a value of a Rust type, or a slice of them for an array: a `u32` is set as
    /// `u32`, whatever the type of the present value.
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

    /// An edit in text: `key=value` or `key:type=value`, and `key[5]=value` for one element of an
    /// array, from 0.
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

    /// Removes the keys that fit a pattern, such as `general.base_model.*`.
    pub fn parse_unset(pattern: &str) -> Result<Self, EditSyntaxError> {
        pattern
            .parse()
            .map(Self::Unset)
            .map_err(|cause| EditSyntaxError::Glob { pattern: pattern.to_owned(), cause })
    }
}

/// The key and the index, from 0, of `key[5]`; `None` for what does not end like that. Fails where
/// what is in the brackets is not an index, and where a type follows them.
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
        // A type after an index.
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

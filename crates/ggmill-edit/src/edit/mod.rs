//! Changing what a file says about a model, without touching its tensors.
//!
//! [`Edit`]s are applied to the metadata one after another ([`edit_metadata`]); [`EditPlan`] says which way the header gets into the file; [`Editor`] goes it.

mod apply;
mod editor;
mod layout;
mod standard;
mod value;

pub use apply::{Edited, KeyChange, edit_metadata};
pub use editor::Editor;
pub use layout::{EditPlan, FILLER_KEY, Ground, Way};
pub use value::{Given, KeyType, KeyTypeError};

/// One change to the metadata of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Gives a key a value, in its place when it is there, at the end when it is not.
    ///
    /// Without a type the value gets that of the present value, else the one the key has by the specification or the architecture, else the one it looks like.
    Set {
        /// The key.
        key: String,
        /// The type, where somebody said it.
        key_type: Option<KeyType>,
        /// The value.
        value: Given,
    },
    /// Removes every key that fits a glob pattern. There must be one.
    Unset(String),
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
    /// Replaces the vocabulary: as many tokens as before, or as many as the embedding has rows.
    Tokens(Vec<String>),
}

impl Edit {
    /// An edit as it is typed: `key=value` or `key:type=value`.
    ///
    /// ```
    /// use ggmill_edit::{Edit, Given};
    /// let edit = Edit::parse_set("llama.rope.freq_base:f32=10000")?;
    /// let expected = Edit::Set {
    ///     key: "llama.rope.freq_base".into(),
    ///     key_type: Some("f32".parse().map_err(|_| "a type")?),
    ///     value: Given::Text("10000".into()),
    /// };
    /// assert_eq!(edit, expected);
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse_set(text: &str) -> Result<Self, String> {
        let (left, value) = text.split_once('=').ok_or("expected key=value or key:type=value")?;
        let (key, key_type) = match left.rsplit_once(':') {
            Some((key, name)) => (key, Some(name.trim().parse().map_err(|error: KeyTypeError| error.to_string())?)),
            None => (left, None),
        };
        Ok(Self::Set { key: key.trim().to_owned(), key_type, value: Given::Text(value.to_owned()) })
    }

    /// Edits for every entry of a document in JSON or TOML, in its order. Tables in tables stand for keys with dots; a key may have its type behind a colon.
    ///
    /// ```
    /// use ggmill_edit::Edit;
    /// let document = serde_json::json!({ "general": { "name": "Tiny", "license": "MIT" }, "llama.context_length:u32": 4096 });
    /// assert_eq!(Edit::set_all(&document)?.len(), 3);
    /// # Ok::<(), String>(())
    /// ```
    pub fn set_all(document: &serde_json::Value) -> Result<Vec<Self>, String> {
        let serde_json::Value::Object(_) = document else { return Err("expected a table of keys and values".to_owned()) };
        let mut edits = Vec::new();
        collect(document, "", &mut edits)?;
        Ok(edits)
    }
}

/// Depth is bounded by what the parsers of JSON and TOML allow.
fn collect(value: &serde_json::Value, path: &str, edits: &mut Vec<Edit>) -> Result<(), String> {
    if let serde_json::Value::Object(table) = value {
        for (name, value) in table {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            collect(value, &path, edits)?;
        }
        return Ok(());
    }
    let (key, key_type) = match path.rsplit_once(':') {
        Some((key, name)) => (key, Some(name.parse().map_err(|error: KeyTypeError| error.to_string())?)),
        None => (path, None),
    };
    edits.push(Edit::Set { key: key.to_owned(), key_type, value: Given::Json(value.clone()) });
    Ok(())
}

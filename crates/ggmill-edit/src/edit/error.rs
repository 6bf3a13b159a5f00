//! Why an edit is refused, and why a value does not fit its type.

use std::fmt;

use ggmill_core::{RawStr, ValueType};
use ggmill_pipeline::{Error, ErrorKind};
use ggmill_text::GlobError;

use super::metadata::MAX_KEY_LEN;
use super::value::{KeyType, KeyTypeError};

/// The error of parsing an edit.
#[derive(Debug)]
#[non_exhaustive]
pub enum EditSyntaxError {
    /// There is no `=` between key and value.
    NoValue,
    /// The text after the colon is not a type.
    KeyType(KeyTypeError),
    /// The pattern for keys is not valid.
    Glob {
        /// The text.
        pattern: String,
        /// The fault.
        cause: GlobError,
    },
    /// The text between `[` and `]` after a key is not an index, or it is followed by a type:
    /// elements have the type of their array.
    Element,
    /// A JSON document does not have the chat template that is expected in it.
    NoChatTemplate,
    /// A document is not JSON.
    Json(serde_json::Error),
    /// A document is not TOML: the parser's message.
    Toml(String),
    /// A document is not a table of keys and values.
    NotTable,
    /// A document is output of ggmill about a model, with this schema.
    OtherDocument(String),
    /// A TOML document has a date or a time, which GGUF has no type for.
    Date,
    /// A TOML document has a number that is not finite.
    NotFinite,
}

impl fmt::Display for EditSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValue => f.write_str("expected key=value or key:type=value"),
            Self::KeyType(error) => error.fmt(f),
            Self::Element => f.write_str("expected key[index]=value, without a type"),
            Self::NoChatTemplate => f.write_str("has no chat_template"),
            Self::Glob { pattern, cause } => {
                write!(f, "pattern {:?}, {cause}", RawStr::from(pattern.as_str()))
            }
            Self::Json(error) => error.fmt(f),
            Self::Toml(message) => f.write_str(message),
            Self::NotTable => f.write_str("expected a table of keys and values"),
            Self::OtherDocument(schema) => write!(
                f,
                "is a {} document, expected a table of keys and values",
                RawStr::from(schema.as_str())
            ),
            Self::Date => f.write_str("contains a date or a time, expected a string in quotes"),
            Self::NotFinite => f.write_str(
                "contains a number that is not finite, expected \"NaN\", \"Infinity\" or \"-Infinity\" in \
                 quotes",
            ),
        }
    }
}

impl std::error::Error for EditSyntaxError {}

impl From<KeyTypeError> for EditSyntaxError {
    fn from(error: KeyTypeError) -> Self {
        Self::KeyType(error)
    }
}

/// Why an edit was refused. It is the [cause](Error::cause) of an [`Error`] of kind
/// [`ErrorKind::Edit`], for programs that can suggest a correction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// The value does not fit the declared type, or the type inferred from it.
    Value(ValueError),
    /// The value does not fit the type of the present value.
    PresentType {
        /// The fault of the value.
        cause: ValueError,
        /// The type of the present value.
        present: KeyType,
    },
    /// The value does not fit the standard type of the key.
    StandardType(ValueError),
    /// The present value is an array of arrays, whose innermost type is ambiguous.
    NestedArray,
    /// No type can be inferred from the value: it is an empty array, or one of several types.
    Untyped,
    /// The key is the filler, which only edits themselves set. It can be removed.
    Filler,
    /// The key has this many bytes: 0, or too many.
    KeyLength(usize),
    /// The key has a character that some readers reject.
    KeyCharacter(char),
    /// No key matches the pattern.
    NoMatch(String),
    /// A key with the new name exists.
    NameTaken(String),
    /// The key does not exist.
    NoSuchKey,
    /// The value whose element is set is not an array.
    NotArray,
    /// The array does not have the element that is set.
    NoSuchElement {
        /// Its index, from 0.
        index: u64,
        /// The number of elements.
        len: u64,
    },
    /// No special token has this name.
    NoSuchRole(String),
    /// The file has no vocabulary to look a token up in.
    NoVocabulary,
    /// No token of the vocabulary has this text. The key can be set to a token ID.
    NoSuchToken {
        /// The key that is set.
        key: &'static str,
        /// The text.
        token: String,
    },
    /// Several tokens of the vocabulary have this text. The key can be set to a token ID.
    AmbiguousToken {
        /// The key that is set.
        key: &'static str,
        /// The text.
        token: String,
        /// The IDs of the first two tokens with this text.
        ids: [u32; 2],
    },
    /// The number of tokens of a new vocabulary differs from that of the present one and from the
    /// number of rows of the embedding.
    TokenCount {
        /// The tokens of the new vocabulary.
        count: u64,
        /// The tokens of the present vocabulary.
        present: Option<u64>,
        /// The rows of the embedding.
        embedding_rows: Option<u64>,
    },
    /// The file is one shard of a set, and all of its tensors would have to move. Merge the set
    /// first.
    OneShard,
    /// The result would be a file that readers reject, or that no longer belongs to its set.
    Broken(String),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw = |text: &str| format!("{:?}", RawStr::from(text));
        match self {
            Self::Value(cause) => cause.fmt(f),
            Self::PresentType { cause, present } => write!(
                f,
                "{cause}; the key currently has type {present}, and key:type=value gives it a \
                 different type"
            ),
            Self::StandardType(cause) => {
                write!(f, "{cause}; key:type=value gives it a different type")
            }
            Self::NestedArray => {
                f.write_str("is an array of arrays: specify its type, as in key:[[f32]]=…")
            }
            Self::Untyped => f.write_str(
                "has no unambiguous type; specify one with key:type=value, as in key:[string]=[]",
            ),
            Self::Filler => {
                f.write_str("is the space reserved for later edits, and is managed by ggmill")
            }
            Self::KeyLength(len) => {
                write!(f, "a key of {len} bytes, expected 1 to {MAX_KEY_LEN}")
            }
            Self::KeyCharacter(c) => {
                write!(f, "{c:?} in a key, expected letters, digits, dots and similar characters")
            }
            Self::NoMatch(pattern) => write!(f, "no key matches {}", raw(pattern)),
            Self::NameTaken(name) => {
                write!(f, "cannot be renamed to {}, which already exists", raw(name))
            }
            Self::NoSuchKey => f.write_str("no such key"),
            Self::NotArray => f.write_str("is not an array, so it has no elements to set"),
            Self::NoSuchElement { index, len } => {
                write!(f, "has no element {index}: the array has {len}, counted from 0")
            }
            Self::NoSuchRole(role) => {
                let names: Vec<&str> =
                    ggmill_core::keys::SPECIAL_TOKENS.iter().map(|(name, _)| *name).collect();
                write!(
                    f,
                    "{} is not the name of a special token, expected one of {}",
                    raw(role),
                    names.join(", ")
                )
            }
            Self::NoVocabulary => f.write_str("the file has no vocabulary to look the token up in"),
            Self::NoSuchToken { token, .. } => write!(f, "there is no token {}", raw(token)),
            Self::AmbiguousToken { token, ids: [one, other], .. } => {
                write!(f, "{} is the text of both token {one} and token {other}", raw(token))
            }
            Self::TokenCount { count, present, embedding_rows } => {
                let now = present.map_or_else(
                    || "no vocabulary".to_owned(),
                    |present| format!("{present} tokens"),
                );
                let rows = embedding_rows
                    .map(|rows| format!(" and an embedding with {rows} rows"))
                    .unwrap_or_default();
                write!(f, "{count} tokens, but the file has {now}{rows}")
            }
            Self::OneShard => f.write_str(
                "is one shard of a set, which cannot be rewritten on its own; merge the set first",
            ),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for EditError {}

impl EditError {
    /// Wraps this as the error of an operation, with the same message.
    pub(crate) fn refused(self) -> Error {
        Error::caused(ErrorKind::Edit, self)
    }
}

/// Why a value does not fit a type. Texts are shortened and escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// The text is not an integer.
    NotInteger {
        /// The text.
        found: String,
        /// The type.
        expected: ValueType,
    },
    /// The text is not a number.
    NotNumber {
        /// The text.
        found: String,
        /// The type.
        expected: ValueType,
    },
    /// The integer is out of the range of the type.
    OutOfRange {
        /// The number.
        found: String,
        /// The smallest value of the type.
        least: i128,
        /// The largest value of the type.
        greatest: i128,
    },
    /// The number is finite, and would be infinite as f32.
    TooLargeForF32 {
        /// The number.
        found: String,
    },
    /// The text is neither true nor false.
    NotBool {
        /// The text.
        found: String,
    },
    /// No value can be written as the type.
    NotWritable {
        /// The text.
        found: String,
        /// The type.
        expected: ValueType,
    },
    /// The JSON value has a different type.
    Mismatch {
        /// The value.
        found: String,
        /// The type.
        expected: ValueType,
    },
    /// The JSON value is null.
    Null {
        /// The type.
        expected: ValueType,
    },
    /// The JSON value is not an array.
    NotArray {
        /// The value.
        found: String,
        /// The type.
        expected: KeyType,
    },
    /// The text is not a JSON array.
    NotJsonArray {
        /// The text; `None` if it is the content of a file.
        found: Option<String>,
        /// The type.
        expected: KeyType,
    },
    /// The typed value has a different type from the one that the edit declares.
    OtherType {
        /// The type of the value.
        found: ValueType,
        /// The declared type.
        expected: KeyType,
    },
    /// An element of the array is wrong.
    Element {
        /// The index, from 0.
        place: usize,
        /// The fault.
        cause: Box<ValueError>,
    },
    /// A line of the file is wrong.
    Line {
        /// The number of the line, from 1.
        number: u64,
        /// The fault.
        cause: Box<ValueError>,
    },
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInteger { found, expected } => {
                write!(f, "{found} is not an integer, expected {expected}")
            }
            Self::NotNumber { found, expected } => {
                write!(f, "{found} is not a number, expected {expected}")
            }
            Self::OutOfRange { found, least, greatest } => {
                write!(f, "{found} is out of range, expected {least} to {greatest}")
            }
            Self::TooLargeForF32 { found } => write!(f, "{found} is out of range for f32"),
            Self::NotBool { found } => write!(f, "{found} is not a bool, expected true or false"),
            Self::NotWritable { found, expected } => {
                write!(f, "{found} cannot be written as {expected}")
            }
            Self::Mismatch { found, expected } => write!(f, "{found} is not a {expected}"),
            Self::Null { expected } => write!(f, "null is not a value, expected {expected}"),
            Self::NotArray { found, expected } => {
                write!(f, "{found} is not an array, expected {expected}")
            }
            Self::NotJsonArray { found: Some(found), expected } => {
                write!(f, "{found} is not a JSON array, expected {expected}")
            }
            Self::NotJsonArray { found: None, expected } => {
                write!(f, "the file does not contain a JSON array, expected {expected}")
            }
            Self::OtherType { found, expected } => {
                write!(f, "the value is {found}, expected {expected}")
            }
            Self::Element { place, cause } => write!(f, "element {place}: {cause}"),
            Self::Line { number, cause } => write!(f, "line {number}: {cause}"),
        }
    }
}

impl std::error::Error for ValueError {}

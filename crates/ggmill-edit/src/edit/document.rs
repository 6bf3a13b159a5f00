//! Documents of metadata: tables of keys and values and lists of tokens as edits, and metadata as
//! such a table.

use std::collections::BTreeSet;
use std::fmt;

use ggmill_core::{MetadataBuf, RawStr, Value, ValueType};
use ggmill_pipeline::{Error, ErrorKind};
use ggmill_template::TemplateFile;
use ggmill_text::Glob;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value as Json, json};

use super::error::EditSyntaxError;
use super::metadata::FILLER_KEY;
use super::value::{KeyType, MAX_DEPTH, bounded_json};
use super::{Edit, EditValue};

/// The length of a TOML document in bytes. A value takes up to 40 times its text.
const MAX_TOML: usize = 8 << 20;
/// The number of tables and arrays of a TOML document, which take more.
const MAX_NESTED: usize = 1 << 17;

impl Edit {
    /// Returns an edit for every entry of a JSON object, in its order. The keys of nested objects are
    /// joined with dots; a key may have its type after a colon. A key whose value is null is removed.
    /// For a floating-point type, `"NaN"`, `"Infinity"` and `"-Infinity"` are numbers, because JSON
    /// has no literals for them.
    ///
    /// ```
    /// use ggmill_edit::Edit;
    /// let edits = Edit::from_json(r#"{ "general": { "name": "Tiny", "license": null }, "llama.context_length:u32": 4096 }"#)?;
    /// assert_eq!(edits.len(), 3);
    /// assert_eq!(edits[1], Edit::parse_unset("general.license")?);
    /// # Ok::<(), ggmill_edit::EditSyntaxError>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Vec<Self>, EditSyntaxError> {
        // A document of a node takes as much memory as its value, which is limited.
        bounded_json(text).map_err(EditSyntaxError::Json)?;
        match serde_json::from_str(text).map_err(EditSyntaxError::Json)? {
            Node::Table(entries) => {
                if let Some(schema) = schema(&entries) {
                    return Err(EditSyntaxError::OtherDocument(schema.to_owned()));
                }
                Node::Table(entries).edits()
            }
            Node::Value(_) => Err(EditSyntaxError::NotTable),
        }
    }

    /// Returns an edit for every entry of a TOML document, by the rules of
    /// [`from_json`](Self::from_json). Fails for a date, because GGUF has no such type.
    ///
    /// ```
    /// use ggmill_edit::{Edit, EditSyntaxError};
    /// assert_eq!(Edit::from_toml("general.name = \"Tiny\"\n[llama]\ncontext_length = 4096\n")?.len(), 2);
    /// assert!(matches!(Edit::from_toml("general.date = 2024-01-01"), Err(EditSyntaxError::Date)));
    /// # Ok::<(), EditSyntaxError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Vec<Self>, EditSyntaxError> {
        let nested = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
        if text.len() > MAX_TOML || nested > MAX_NESTED {
            return Err(EditSyntaxError::Toml("the document takes too much memory".to_owned()));
        }
        let table: toml::Table = toml::from_str(text)
            .map_err(|error| EditSyntaxError::Toml(error.message().to_owned()))?;
        table_of(table)?.edits()
    }

    /// Returns an edit for every entry of a document: JSON if it begins with `{` or parses as JSON,
    /// otherwise TOML.
    ///
    /// ```
    /// use ggmill_edit::Edit;
    /// let json = Edit::from_document(r#"{"general.name": "Tiny"}"#)?;
    /// assert_eq!(json, Edit::from_document("general.name = 'Tiny'")?);
    /// # Ok::<(), ggmill_edit::EditSyntaxError>(())
    /// ```
    pub fn from_document(text: &str) -> Result<Vec<Self>, EditSyntaxError> {
        let reads_as_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
        let is_json = text.trim_start().starts_with('{') || reads_as_json();
        if is_json { Self::from_json(text) } else { Self::from_toml(text) }
    }

    /// Returns edits that set the chat template to a Jinja text, or to the `chat_template` of a JSON
    /// document: a checkpoint's `tokenizer_config.json` or `chat_template.json`. Of a list of named
    /// templates, the one named `default` is the template, and the others get keys with their names,
    /// as the reference writes them. The text is not parsed as Jinja.
    ///
    /// ```
    /// use ggmill_edit::Edit;
    /// let config = r#"{"bos_token": "<s>", "chat_template": "{{ bos_token }}"}"#;
    /// assert_eq!(Edit::chat_template(config)?, Edit::chat_template("{{ bos_token }}")?);
    /// assert!(Edit::chat_template(r#"{"bos_token": "<s>"}"#).is_err());
    /// # Ok::<(), ggmill_edit::EditSyntaxError>(())
    /// ```
    pub fn chat_template(text: &str) -> Result<Vec<Self>, EditSyntaxError> {
        let file = TemplateFile::parse(text).map_err(|_| EditSyntaxError::NoChatTemplate)?;
        let mut edits: Vec<Self> = file
            .templates
            .iter()
            .map(|template| Self::set(template.key(), &template.text.as_str()))
            .collect();
        let names = file.names();
        if !names.is_empty() {
            edits.push(Self::set(TemplateFile::NAMES, &names.as_slice()));
        }
        Ok(edits)
    }

    /// Returns an edit that replaces the vocabulary: a JSON array of strings, or one token per line.
    ///
    /// ```
    /// use ggmill_edit::Edit;
    /// assert_eq!(Edit::tokens_from("<s>\n</s>\n"), Edit::tokens_from(r#"["<s>", "</s>"]"#));
    /// ```
    pub fn tokens_from(text: &str) -> Self {
        Self::Tokens(
            serde_json::from_str(text)
                .unwrap_or_else(|_| text.lines().map(str::to_owned).collect()),
        )
    }
}

/// Returns the schema of a document that ggmill writes about a model, such as the output of
/// `inspect --json`. Its entries are not metadata.
fn schema(entries: &[(String, Node)]) -> Option<&str> {
    let (_, found) = entries.iter().find(|(key, _)| key == "schema")?;
    let Node::Value(Json::String(schema)) = found else { return None };
    schema.starts_with("ggmill.").then_some(&**schema)
}

/// A value of a document, or a table. Tables of `serde_json` are sorted by key, but new keys are
/// added to a file in the order of the document.
enum Node {
    Table(Vec<(String, Self)>),
    Value(Json),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(document: D) -> Result<Self, D::Error> {
        document.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of keys and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Table(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Node::Value(Json::Array(elements)))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Value(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Value(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Value(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Value(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Value(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Value(Json::Null))
    }
}

impl Node {
    fn edits(self) -> Result<Vec<Edit>, EditSyntaxError> {
        let mut edits = Vec::new();
        self.collect(String::new(), &mut edits)?;
        Ok(edits)
    }

    /// Adds the edits of this node. The parsers of JSON and TOML limit the recursion depth.
    fn collect(self, path: String, edits: &mut Vec<Edit>) -> Result<(), EditSyntaxError> {
        let value = match self {
            Self::Table(entries) => {
                for (name, value) in entries {
                    let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                    value.collect(path, edits)?;
                }
                return Ok(());
            }
            Self::Value(Json::Null) => {
                let is_type = |name: &str| name.parse::<KeyType>().is_ok();
                let key = match path.rsplit_once(':') {
                    Some((key, name)) if is_type(name) => key,
                    _ => &path,
                };
                edits.push(Edit::Unset(Glob::literal(key)));
                return Ok(());
            }
            Self::Value(value) => value,
        };
        let (key, key_type) = match path.rsplit_once(':') {
            Some((key, name)) => (key.to_owned(), Some(name.parse()?)),
            None => (path, None),
        };
        edits.push(Edit::Set { key, key_type, value: EditValue::Json(value) });
        Ok(())
    }
}

fn table_of(table: toml::Table) -> Result<Node, EditSyntaxError> {
    let entries = table.into_iter().map(|(key, value)| {
        let value = match value {
            toml::Value::Table(table) => table_of(table)?,
            other => Node::Value(json_of(other)?),
        };
        Ok((key, value))
    });
    entries.collect::<Result<_, _>>().map(Node::Table)
}

fn json_of(value: toml::Value) -> Result<Json, EditSyntaxError> {
    Ok(match value {
        toml::Value::String(text) => Json::String(text),
        toml::Value::Integer(number) => Json::from(number),
        toml::Value::Float(number) if !number.is_finite() => {
            return Err(EditSyntaxError::NotFinite);
        }
        toml::Value::Float(number) => Json::from(number),
        toml::Value::Boolean(value) => Json::Bool(value),
        toml::Value::Datetime(_) => return Err(EditSyntaxError::Date),
        toml::Value::Array(elements) => {
            Json::Array(elements.into_iter().map(json_of).collect::<Result<_, _>>()?)
        }
        // A table in an array: setting the key fails.
        toml::Value::Table(table) => {
            let entries =
                table.into_iter().map(|(key, value)| json_of(value).map(|value| (key, value)));
            Json::Object(entries.collect::<Result<_, _>>()?)
        }
    })
}

/// Returns the metadata for whose keys `has_key` returns `true` as a JSON object with one line per
/// key, `"key:type": value`. [`Edit::from_json`](crate::Edit::from_json) reads it, and setting the
/// values again restores every bit.
///
/// Keys about the file itself are omitted: the space reserved for edits, and the shard's place in its
/// set.
///
/// Fails for metadata that JSON cannot express: text that is not UTF-8, numbers that are not finite,
/// arrays of arrays of different types, a duplicate key.
///
/// ```
/// use ggmill_core::MetadataBuf;
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// metadata.set("llama.block_count", 2u32);
/// let text = ggmill_edit::extract_metadata(&metadata, |key| key.as_bytes().starts_with(b"llama."))?;
/// assert_eq!(text, "{\n\"llama.block_count:u32\": 2\n}\n");
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub fn extract_metadata(
    metadata: &MetadataBuf,
    mut has_key: impl FnMut(RawStr<'_>) -> bool,
) -> Result<String, Error> {
    let mut names = BTreeSet::new();
    let mut text = "{".to_owned();
    for (key, value) in metadata.iter().filter(|(key, _)| has_key(*key) && !is_of_the_file(*key)) {
        let refused = |why: &str| Error::new(ErrorKind::Unsupported, why).key(key.as_bytes());
        let name = key.to_str().map_err(|_| refused("is not valid UTF-8, which JSON requires"))?;
        if !names.insert(key.as_bytes()) {
            return Err(refused("occurs twice, which JSON cannot express"));
        }
        let key_type = type_of(&value, MAX_DEPTH).ok_or_else(|| {
            refused("consists of arrays of different types, which JSON cannot express")
        })?;
        let value = json(&value).map_err(refused)?;
        text.push_str(if names.len() > 1 { ",\n" } else { "\n" });
        let escaped = |value: &Json| {
            ggmill_text::json::to_string(value)
                .map_err(|error| Error::caused(ErrorKind::Unsupported, error))
        };
        text.push_str(&escaped(&Json::from(format!("{name}:{key_type}")))?);
        text.push_str(": ");
        text.push_str(&escaped(&value)?);
    }
    text.push_str("\n}\n");
    Ok(text)
}

fn is_of_the_file(key: RawStr<'_>) -> bool {
    key.as_bytes() == FILLER_KEY.as_bytes() || key.as_bytes().starts_with(b"split.")
}

/// Returns the type, including those of nested arrays; `None` if nested arrays have different types.
fn type_of(value: &Value<'_>, depth: usize) -> Option<KeyType> {
    let Some(array) = value.as_array().filter(|array| array.element_type() == ValueType::ARRAY)
    else {
        return KeyType::of(value);
    };
    let mut types = array.iter().map(|element| type_of(&element.ok()?, depth.checked_sub(1)?));
    let first = match types.next() {
        Some(first) => first?,
        // An empty array of arrays: any element type is right.
        None => KeyType::array(ValueType::U8),
    };
    types.all(|other| other == Some(first)).then(|| first.within())?
}

/// Converts a value to JSON. Fails for a value that JSON cannot express, like [`extract_metadata`].
///
/// ```
/// let json = ggmill_edit::value_json(&ggmill_core::Value::U32(4096))?;
/// assert_eq!(json, serde_json::json!(4096));
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub fn value_json(value: &Value<'_>) -> Result<Json, Error> {
    json(value).map_err(|why| Error::new(ErrorKind::Unsupported, why))
}

fn json(value: &Value<'_>) -> Result<Json, &'static str> {
    let number = |number: f64| {
        Number::from_f64(number)
            .map(Json::Number)
            .ok_or("contains a number that is not finite, which JSON cannot express")
    };
    Ok(match *value {
        Value::Str(text) => Json::from(
            text.to_str()
                .map_err(|_| "contains a string that is not valid UTF-8, which JSON requires")?,
        ),
        Value::Bool(value) => Json::from(value),
        Value::F32(value) => number(f64::from(value))?,
        Value::F64(value) => number(value)?,
        Value::Array(array) => Json::Array(
            array
                .iter()
                .map(|element| json(&element.map_err(|_| "cannot be read")?))
                .collect::<Result<_, _>>()?,
        ),
        Value::U64(value) => json!(value),
        ref other => json!(other.as_i64()),
    })
}

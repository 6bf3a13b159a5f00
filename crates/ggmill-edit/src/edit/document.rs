//! Documents that stand for edits: tables of keys and values, and lists of tokens.

use core::fmt;

use ggmill_template::TemplateFile;
use ggmill_text::Glob;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::error::EditSyntaxError;
use super::key_type::KeyType;
use super::{Edit, EditValue};

impl Edit {
    /// Edits for every entry of a JSON object, in its order. Objects in objects stand for keys with
    /// dots; a key may have its type after a colon. A key whose value is null is removed. `"NaN"`,
    /// `"Infinity"` and `"-Infinity"` are numbers where the type is a floating-point type, as JSON
    /// has no others for these.
    ///
    /// ```
    /// use ggmill_edit::Edit;
    /// let edits = Edit::from_json(r#"{ "general": { "name": "Tiny", "license": null }, "llama.context_length:u32": 4096 }"#)?;
    /// assert_eq!(edits.len(), 3);
    /// assert_eq!(edits[1], Edit::parse_unset("general.license")?);
    /// # Ok::<(), ggmill_edit::EditSyntaxError>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Vec<Self>, EditSyntaxError> {
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

    /// Edits for every entry of a TOML document, as [`from_json`](Self::from_json) does it. A date
    /// is not a type of this format, and refused.
    ///
    /// ```
    /// use ggmill_edit::{Edit, EditSyntaxError};
    /// assert_eq!(Edit::from_toml("general.name = \"Tiny\"\n[llama]\ncontext_length = 4096\n")?.len(), 2);
    /// assert!(matches!(Edit::from_toml("general.date = 2024-01-01"), Err(EditSyntaxError::Date)));
    /// # Ok::<(), EditSyntaxError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Vec<Self>, EditSyntaxError> {
        let table: toml::Table = toml::from_str(text)
            .map_err(|error| EditSyntaxError::Toml(error.message().to_owned()))?;
        table_of(table)?.edits()
    }

    /// Edits for every entry of a document that is JSON if it begins with `{` or reads as JSON, and
    /// TOML otherwise.
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

    /// Edits that set the chat template to a Jinja text, or to the `chat_template` of a JSON
    /// document: a checkpoint's `tokenizer_config.json` or `chat_template.json`. Where that is a
    /// list of named templates, the one named `default` is the template, and the others get keys
    /// with their names, as the reference writes them. What the text says is not examined.
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

    /// A new vocabulary: a JSON array of strings, or one token per line.
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

/// The schema of a document that ggmill writes about a model, such as that of `inspect --json`: no
/// keys and values for a file.
fn schema(entries: &[(String, Node)]) -> Option<&str> {
    let (_, found) = entries.iter().find(|(key, _)| key == "schema")?;
    let Node::Value(Json::String(schema)) = found else { return None };
    schema.starts_with("ggmill.").then_some(&**schema)
}

/// A value of a document, or a table of them. `serde_json`'s own tables are sorted by key, but new
/// keys of a file are added in the order of the document.
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

    /// Depth is bounded by what the parsers of JSON and TOML allow.
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
        // In an array, where a table is no value of a key: refused where it is set.
        toml::Value::Table(table) => {
            let entries =
                table.into_iter().map(|(key, value)| json_of(value).map(|value| (key, value)));
            Json::Object(entries.collect::<Result<_, _>>()?)
        }
    })
}

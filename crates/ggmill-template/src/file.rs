//! Templates in files: Jinja and JSON files, and GGUF models.

use ggmill_core::{Metadata, MetadataBuf, keys};

use crate::error::{Error, ErrorKind, Result};
use crate::json::Json;
use crate::template::TOKENS;

/// The templates and special tokens in a Jinja or JSON file.
///
/// ```
/// use ggmill_template::TemplateFile;
/// let config = r#"{"bos_token": {"content": "<s>"}, "chat_template": "{{ bos_token }}"}"#;
/// let file = TemplateFile::parse(config)?;
/// assert_eq!(file.templates[0].text, "{{ bos_token }}");
/// assert_eq!(file.tokens, [("bos_token".to_owned(), "<s>".to_owned())]);
/// # Ok::<(), ggmill_template::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateFile {
    /// The templates in the order of the file; at least one.
    pub templates: Vec<ModelTemplate>,
    /// Special tokens by the names of their variables, such as `bos_token`.
    pub tokens: Vec<(String, String)>,
}

impl TemplateFile {
    /// The metadata key that lists the names of templates.
    pub const NAMES: &'static str = "tokenizer.chat_templates";

    /// Parses a Jinja text, or the `chat_template` of a JSON document: a checkpoint's
    /// `tokenizer_config.json` or `chat_template.json`. This can be a list of named templates, as
    /// transformers writes it; the one named `default` is the default template. Names become parts
    /// of metadata keys: characters other than letters and digits are replaced, as in llama.cpp's
    /// converter, and letters are lower-cased, as in every key. The templates themselves are not
    /// parsed.
    ///
    /// Fails if a JSON document has no template.
    pub fn parse(text: &str) -> Result<Self> {
        match Json::parse(text) {
            Ok(config @ Json::Object(_)) => {
                let template = config.get("chat_template").ok_or_else(missing)?;
                let tokens = TOKENS.into_iter().filter_map(|name| {
                    let value = config.get(name)?;
                    let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
                    Some((name.to_owned(), text.to_owned()))
                });
                Ok(Self { templates: templates(template)?, tokens: tokens.collect() })
            }
            Ok(list @ Json::Array(_)) => {
                Ok(Self { templates: templates(&list)?, tokens: Vec::new() })
            }
            _ => Ok(Self { templates: vec![ModelTemplate::new(None, text)], tokens: Vec::new() }),
        }
    }

    /// Returns the metadata entries of a model with these templates.
    pub fn to_metadata(&self) -> MetadataBuf {
        let mut metadata = MetadataBuf::new();
        for template in &self.templates {
            metadata.set(template.key(), template.text.as_str());
        }
        let names = self.names();
        if !names.is_empty() {
            metadata.set(Self::NAMES, &names);
        }
        metadata
    }

    /// Returns the names of the named templates, in order.
    pub fn names(&self) -> Vec<&str> {
        self.templates.iter().filter_map(|template| template.name.as_deref()).collect()
    }
}

fn missing() -> Error {
    Error::new(ErrorKind::Missing, "the document has no chat_template")
}

/// Parses one template or a list of named templates.
fn templates(value: &Json) -> Result<Vec<ModelTemplate>> {
    let list = match value {
        Json::String(text) => return Ok(vec![ModelTemplate::new(None, text.as_str())]),
        Json::Array(list) => list,
        _ => return Err(missing()),
    };
    let mut found: Vec<ModelTemplate> = Vec::new();
    for entry in list {
        let text = |field: &str| entry.get(field).and_then(Json::as_str);
        let (Some(name), Some(template)) = (text("name"), text("template")) else {
            let message = "expected templates as objects with name and template";
            return Err(Error::new(ErrorKind::Missing, message));
        };
        let name = (name != "default").then(|| {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            name.to_lowercase().chars().map(plain).collect::<String>()
        });
        match found.iter_mut().find(|known| known.name == name) {
            Some(known) => template.clone_into(&mut known.text),
            None => found.push(ModelTemplate::new(name, template)),
        }
    }
    if found.is_empty() { Err(missing()) } else { Ok(found) }
}

/// A template of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelTemplate {
    /// The name; `None` for the default template.
    pub name: Option<String>,
    /// The text.
    pub text: String,
}

impl ModelTemplate {
    /// Creates a named template, or the default template.
    pub fn new(name: Option<String>, text: impl Into<String>) -> Self {
        Self { name, text: text.into() }
    }

    /// Returns the metadata key of the template: `tokenizer.chat_template`, followed by a dot and
    /// the name if there is one.
    pub fn key(&self) -> String {
        let base = keys::TOKENIZER_CHAT_TEMPLATE;
        self.name.as_ref().map_or_else(|| base.to_owned(), |name| format!("{base}.{name}"))
    }
}

/// Returns the templates of a file: the default template first, the others in the order of the
/// file. Values that are not text are omitted.
pub fn model_templates(metadata: &Metadata<'_>) -> Vec<ModelTemplate> {
    let base = keys::TOKENIZER_CHAT_TEMPLATE;
    let mut found = Vec::new();
    for entry in metadata {
        let Ok(key) = std::str::from_utf8(entry.key().as_bytes()) else { continue };
        let name = match key.strip_prefix(base) {
            Some("") => None,
            Some(rest) => match rest.strip_prefix('.') {
                Some(name) => Some(name.to_owned()),
                None => continue,
            },
            None => continue,
        };
        let text = entry.value().ok().and_then(|value| value.as_raw_str()?.to_str().ok());
        if let Some(text) = text {
            found.push(ModelTemplate::new(name, text));
        }
    }
    found.sort_by_key(|template| template.name.is_some());
    found
}

/// Returns the template of this name. Without a name, or for `default`, returns the default
/// template, or the first if there is none.
///
/// ```
/// use ggmill_template::{ModelTemplate, choose_template};
/// let templates = [ModelTemplate::new(Some("tool_use".to_owned()), "a")];
/// assert_eq!(choose_template(&templates, None), Some(&templates[0]));
/// assert_eq!(choose_template(&templates, Some("rag")), None);
/// ```
pub fn choose_template<'a>(
    templates: &'a [ModelTemplate],
    name: Option<&str>,
) -> Option<&'a ModelTemplate> {
    match name {
        Some(name) if name != "default" => {
            templates.iter().find(|template| template.name.as_deref() == Some(name))
        }
        _ => templates.iter().find(|template| template.name.is_none()).or(templates.first()),
    }
}

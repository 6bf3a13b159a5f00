//! Templates in a file of their own.

use ggmill_core::MetadataBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::json::Json;
use crate::model::ModelTemplate;
use crate::options::TOKENS;

/// The templates of a file that is not a model, and the special tokens that it names.
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
    /// The templates, as the file lists them; there is at least one.
    pub templates: Vec<ModelTemplate>,
    /// Special tokens by the names of their variables, such as `bos_token`.
    pub tokens: Vec<(String, String)>,
}

impl TemplateFile {
    /// The metadata key with the names of the templates that have one.
    pub const NAMES: &'static str = "tokenizer.chat_templates";

    /// Reads a Jinja text, or the `chat_template` of a JSON document: a checkpoint's
    /// `tokenizer_config.json` or `chat_template.json`. That can be a list of templates with names,
    /// as transformers writes it; the one named `default` is the default template. Other names become
    /// parts of keys: characters that are not letters or digits are replaced, as llama.cpp's
    /// converter does, and letters are lower-case, as in every key. What the templates say is not
    /// examined.
    ///
    /// Fails where a JSON document has no template.
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

    /// The metadata entries that a model with these templates has.
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

    /// The names of the templates that have one, in order.
    pub fn names(&self) -> Vec<&str> {
        self.templates.iter().filter_map(|template| template.name.as_deref()).collect()
    }
}

fn missing() -> Error {
    Error::new(ErrorKind::Missing, "the document has no chat_template")
}

/// One template, or a list of them with names.
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

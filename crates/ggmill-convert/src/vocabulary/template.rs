//! Chat templates: one, or several with names.

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::Result;
use serde_json::{Map, Value};

use super::files;
use super::request::Request;

/// The most templates of one checkpoint.
const MAX_TEMPLATES: usize = 256;

/// The chat templates of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    default: Option<String>,
    /// The others, in the order they were listed.
    named: Vec<(String, String)>,
}

impl Templates {
    /// `chat_template` in `tokenizer_config.json` comes first, then `chat_template.jinja` with
    /// those in `additional_chat_templates`, then `chat_template.json`.
    pub(crate) fn load(request: &mut Request<'_>, config: &Map<String, Value>) -> Result<Self> {
        const FILE: &str = "tokenizer_config.json";
        match config.get("chat_template") {
            Some(value) => Ok(Self::of(value, FILE, request)),
            None => Self::beside(request),
        }
    }

    fn beside(request: &mut Request<'_>) -> Result<Self> {
        const ADDITIONAL: &str = "additional_chat_templates";
        const FILE: &str = "chat_template.json";
        if let Some(default) = files::template(request.files, "chat_template.jinja")? {
            let mut this = Self { default: Some(default), named: Vec::new() };
            let others = request.files.list(ADDITIONAL)?;
            for file in others.iter().filter_map(|name| name.strip_suffix(".jinja")) {
                let name = format!("{ADDITIONAL}/{file}.jinja");
                if let Some(template) = files::template(request.files, &name)? {
                    this.add(file, template);
                }
            }
            return Ok(this);
        }
        let Some(document) = files::json(request.files, FILE)? else { return Ok(Self::default()) };
        let template = document.get("chat_template").cloned().unwrap_or_default();
        Ok(Self::of(&template, FILE, request))
    }

    /// A template, or a list of them with names.
    fn of(value: &Value, file: &str, request: &mut Request<'_>) -> Self {
        let mut this = Self::default();
        match value {
            Value::Null => {}
            Value::String(template) => this.default = Some(template.clone()),
            Value::Array(choices) => {
                for choice in choices.iter().take(MAX_TEMPLATES) {
                    let name = choice.get("name").and_then(Value::as_str).unwrap_or_default();
                    if let Some(template) = choice.get("template").and_then(Value::as_str) {
                        this.add(name, template.to_owned());
                    }
                }
            }
            _ => request.notes.push(format!(
                "{file}: chat_template is neither a template nor a list of them, was left out"
            )),
        }
        this
    }

    /// Adds one; a later one of the same name replaces it.
    fn add(&mut self, name: &str, template: String) {
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if name == "default" {
            self.default = Some(template);
        } else if let Some((_, present)) = self.named.iter_mut().find(|(known, _)| *known == name) {
            *present = template;
        } else if !name.is_empty() && self.named.len() < MAX_TEMPLATES {
            self.named.push((name, template));
        }
    }

    /// Sets the keys. The names are listed in their order here; the reference lists them in that
    /// of a Python set, which differs from run to run.
    pub(crate) fn write_to(&self, metadata: &mut MetadataBuf) {
        for (name, template) in self.named.iter().filter(|(_, template)| !template.is_empty()) {
            metadata.set(format!("tokenizer.chat_template.{name}"), template.as_str());
        }
        if !self.named.is_empty() {
            let names: Vec<&str> = self.named.iter().map(|(name, _)| &**name).collect();
            metadata.set("tokenizer.chat_templates", &names);
        }
        if let Some(template) = self.default.as_ref().filter(|template| !template.is_empty()) {
            metadata.set(keys::TOKENIZER_CHAT_TEMPLATE, template.as_str());
        }
    }
}

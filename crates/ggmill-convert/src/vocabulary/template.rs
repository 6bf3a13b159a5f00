//! Chat templates of a checkpoint: one default, and others with names.

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use super::files;
use super::request::Request;

/// The file of the default template.
const FILE: &str = "chat_template.jinja";

/// Maximum number of templates of a checkpoint.
const MAX_TEMPLATES: usize = 256;

/// Sets the template of `chat_template.jinja` if the description prefers it to the one in the
/// configuration.
pub(crate) fn write_preferred(request: &mut Request<'_>, metadata: &mut MetadataBuf) -> Result<()> {
    if request.spec.template_file_first
        && let Some(template) = files::template(request.files, FILE)?
    {
        metadata.set(keys::TOKENIZER_CHAT_TEMPLATE, template.as_str());
    }
    Ok(())
}

/// Built-in chat templates by name, for checkpoints without one.
const BUILTIN: [(&str, &str); 7] = [
    ("Kimi-K3", include_str!("../../data/templates/Kimi-K3.jinja")),
    ("MiniMax-M1", include_str!("../../data/templates/MiniMax-M1.jinja")),
    (
        "Mistral-Small-3.2-24B-Instruct-2506",
        include_str!("../../data/templates/Mistral-Small-3.2-24B-Instruct-2506.jinja"),
    ),
    ("deepseek-ai-DeepSeek-V4", include_str!("../../data/templates/deepseek-ai-DeepSeek-V4.jinja")),
    (
        "deepseek-ai-DeepSeek-V4-Flash-0731",
        include_str!("../../data/templates/deepseek-ai-DeepSeek-V4-Flash-0731.jinja"),
    ),
    ("llama-cpp-rwkv-world", include_str!("../../data/templates/llama-cpp-rwkv-world.jinja")),
    (
        "unsloth-mistral-Devstral-Small-2507",
        include_str!("../../data/templates/unsloth-mistral-Devstral-Small-2507.jinja"),
    ),
];

/// Returns the built-in chat template of this name. Fails if there is none.
pub(crate) fn builtin_template(name: &str) -> Result<&'static str> {
    let found = BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, template)| *template);
    found.ok_or_else(|| {
        let known: Vec<&str> = BUILTIN.iter().map(|(name, _)| *name).collect();
        let message =
            format!("there is no chat template {name:?}, expected one of {}", known.join(", "));
        Error::new(ErrorKind::Architecture, message)
    })
}

/// The chat templates of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    default: Option<String>,
    /// The others, in the order in which they are listed.
    named: Vec<(String, String)>,
}

impl Templates {
    /// Loads the templates from the first of these that has one: `chat_template.jinja` with those in
    /// `additional_chat_templates`, as in transformers; `chat_template` in `tokenizer_config.json`;
    /// `chat_template.json`. If the description says so, only from the first.
    pub(crate) fn load(request: &mut Request<'_>, config: &Map<String, Value>) -> Result<Self> {
        const CONFIG: &str = "tokenizer_config.json";
        const JSON: &str = "chat_template.json";
        let of_file = Self::of_files(request)?;
        if !request.spec.template_of_config {
            return Ok(of_file);
        }
        let of_config = config.get("chat_template").map(|value| Self::of(value, CONFIG, request));
        let of_config = of_config.unwrap_or_default();
        if !of_file.is_empty() {
            let differs = |default: &String| of_file.default.as_ref() != Some(default);
            if of_config.default.as_ref().is_some_and(differs) {
                request.notes.push(format!(
                    "the chat templates of {FILE} and {CONFIG} differ; that of {FILE} was used, as in \
                     transformers"
                ));
            }
            return Ok(of_file);
        }
        if !of_config.is_empty() {
            return Ok(of_config);
        }
        let Some(document) = files::json(request.files, JSON)? else { return Ok(Self::default()) };
        let template = document.get("chat_template").cloned().unwrap_or_default();
        Ok(Self::of(&template, JSON, request))
    }

    /// Reads `chat_template.jinja` and the files in `additional_chat_templates`.
    fn of_files(request: &Request<'_>) -> Result<Self> {
        const ADDITIONAL: &str = "additional_chat_templates";
        let mut this = Self::default();
        let Some(default) = files::template(request.files, FILE)?.filter(|text| !text.is_empty())
        else {
            return Ok(this);
        };
        this.default = Some(default);
        let others = request.files.list(ADDITIONAL)?;
        for file in others.iter().filter_map(|name| name.strip_suffix(".jinja")) {
            let name = format!("{ADDITIONAL}/{file}.jinja");
            if let Some(template) = files::template(request.files, &name)? {
                this.add(file, template);
            }
        }
        Ok(this)
    }

    /// Returns `true` if there is no template with text.
    fn is_empty(&self) -> bool {
        let mut all = self.default.iter().chain(self.named.iter().map(|(_, template)| template));
        all.all(String::is_empty)
    }

    /// Reads a template or a list of named templates.
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
                "{file}: chat_template is neither a template nor a list of templates, and was \
                 omitted"
            )),
        }
        this
    }

    /// Adds a named template; replaces an earlier one of the same name.
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

    /// Sets the default template if there is no template.
    pub(crate) fn set_default(
        &mut self,
        template: impl FnOnce() -> Result<&'static str>,
    ) -> Result<()> {
        if self.default.is_none() && self.named.is_empty() {
            self.default = Some(template()?.to_owned());
        }
        Ok(())
    }

    /// Sets the keys. Names are listed in order; the reference lists them in the order of a Python
    /// set, which differs from run to run.
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

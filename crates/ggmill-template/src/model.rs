//! The templates of a model file.

use ggmill_core::{Metadata, keys};

/// A template in a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelTemplate {
    /// The name; none for the default template.
    pub name: Option<String>,
    /// The text.
    pub text: String,
}

impl ModelTemplate {
    /// A template with a name, or the default one.
    pub fn new(name: Option<String>, text: impl Into<String>) -> Self {
        Self { name, text: text.into() }
    }

    /// The metadata key of the template: `tokenizer.chat_template`, and the name after a dot.
    pub fn key(&self) -> String {
        let base = keys::TOKENIZER_CHAT_TEMPLATE;
        self.name.as_ref().map_or_else(|| base.to_owned(), |name| format!("{base}.{name}"))
    }
}

/// The templates of a file, the default one first where there is one; the others as they are in the
/// file. A value that is not text is left out.
pub fn model_templates(metadata: &Metadata<'_>) -> Vec<ModelTemplate> {
    let base = keys::TOKENIZER_CHAT_TEMPLATE;
    let mut found = Vec::new();
    for entry in metadata.iter() {
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

/// The template with a name; without one, or with the name `default`, the default template, or the
/// first where none is the default.
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

//! The templates and the special tokens of a model file.

use ggmill_core::{Metadata, keys};
use ggmill_tokenizer::Vocabulary;

/// A template in a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelTemplate {
    /// The name; none for the default template.
    pub name: Option<String>,
    /// The text.
    pub text: String,
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
            found.push(ModelTemplate { name, text: text.to_owned() });
        }
    }
    found.sort_by_key(|template| template.name.is_some());
    found
}

/// The special tokens of a vocabulary by the names that templates have for them, for
/// [`RenderOptions::tokens`](crate::RenderOptions::tokens). One that the vocabulary does not have
/// is left out.
pub fn special_tokens(vocabulary: &Vocabulary) -> Vec<(String, String)> {
    let ids = vocabulary.special_ids();
    [
        ("bos_token", ids.bos),
        ("eos_token", ids.eos),
        ("unk_token", ids.unk),
        ("sep_token", ids.sep),
        ("pad_token", ids.pad),
        ("mask_token", ids.mask),
    ]
    .into_iter()
    .filter_map(|(name, id)| {
        let text = std::str::from_utf8(vocabulary.text(id?)?).ok()?;
        Some((name.to_owned(), text.to_owned()))
    })
    .collect()
}

//! Options for rendering.

#[cfg(feature = "tokens")]
use ggmill_tokenizer::Vocabulary;

use crate::json::Json;
use crate::meter::Limits;
use crate::moment::Moment;

/// Options for rendering.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RenderOptions {
    /// The most that a template may use.
    pub limits: Limits,
    /// The time that `strftime_now` shows. A template that asks for it is refused without one.
    pub now: Option<Moment>,
    /// Special tokens by the names of their variables, such as `bos_token`: they count as text of
    /// the template.
    pub tokens: Vec<(String, String)>,
    /// Other variables of every conversation that does not set them itself; they replace tokens of
    /// the same name, and text in them counts as text of the template.
    pub variables: Vec<(String, Json)>,
}

impl RenderOptions {
    /// The usual limits; no time, no special tokens and no variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// With these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// At this time.
    #[must_use]
    pub fn with_now(mut self, now: Moment) -> Self {
        self.now = Some(now);
        self
    }

    /// With a special token.
    #[must_use]
    pub fn with_token(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.tokens.push((name.into(), text.into()));
        self
    }

    /// With a variable for every conversation.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: Json) -> Self {
        self.variables.push((name.into(), value));
        self
    }

    /// With the special tokens of a vocabulary, by the names that templates have for them. One that
    /// the vocabulary does not have is left out.
    #[cfg(feature = "tokens")]
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: &Vocabulary) -> Self {
        let ids = vocabulary.special_ids();
        // Vocabularies of GGUF files have no cls token of their own.
        let ids = [ids.bos, ids.eos, ids.unk, ids.sep, ids.pad, ids.mask];
        for (name, id) in TOKENS.into_iter().zip(ids) {
            let text = id.and_then(|id| std::str::from_utf8(vocabulary.text(id)?).ok());
            if let Some(text) = text {
                self = self.with_token(name, text);
            }
        }
        self
    }

    /// With the begin, end, unknown and padding tokens that many vocabularies have, for a template
    /// whose vocabulary is not known. A token or a variable that is set already is left as it is.
    #[must_use]
    pub fn with_usual_tokens(mut self) -> Self {
        const USUAL: [(&str, &str); 4] = [
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
        ];
        for (name, text) in USUAL {
            let is_set = self.tokens.iter().any(|(known, _)| known == name)
                || self.variables.iter().any(|(known, _)| known == name);
            if !is_set {
                self = self.with_token(name, text);
            }
        }
        self
    }
}

/// The variables of special tokens.
pub(crate) const TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "mask_token", "cls_token"];

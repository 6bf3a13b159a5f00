//! Features of templates.

use std::fmt;

/// Something that a template can take besides messages, or that it marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Descriptions of functions.
    Tools,
    /// Documents to answer from.
    Documents,
    /// A switch for the model's reasoning, `enable_thinking`.
    Thinking,
    /// The beginning of the model's answer, `add_generation_prompt`.
    GenerationPrompt,
    /// `generation` blocks around the model's own text.
    GenerationBlocks,
}

impl Feature {
    pub(crate) const ALL: [Self; 5] = [
        Self::Tools,
        Self::Documents,
        Self::Thinking,
        Self::GenerationPrompt,
        Self::GenerationBlocks,
    ];

    /// The name or the text in a template that shows it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Documents => "documents",
            Self::Thinking => "enable_thinking",
            Self::GenerationPrompt => "add_generation_prompt",
            Self::GenerationBlocks => crate::source::GENERATION,
        }
    }
}

impl fmt::Display for Feature {
    /// A few words, such as `generation prompt`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tools => "tools",
            Self::Documents => "documents",
            Self::Thinking => "thinking",
            Self::GenerationPrompt => "generation prompt",
            Self::GenerationBlocks => "generation blocks",
        })
    }
}

//! Options for callers.

/// How a vocabulary is read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// A pre-tokenizer's name instead of that in the file.
    pub pre: Option<String>,
}

impl LoadOptions {
    /// The settings of the file.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this pre-tokenizer instead of that in the file.
    #[must_use]
    pub fn pre(mut self, name: impl Into<String>) -> Self {
        self.pre = Some(name.into());
        self
    }
}

/// How a text is tokenized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// Begin and end tokens are added where the vocabulary asks for them.
    pub add_special: bool,
    /// The text of control tokens becomes these tokens. User-defined tokens always do.
    pub parse_special: bool,
}

impl EncodeOptions {
    /// Begin and end tokens as the vocabulary has them; control tokens in the text are text.
    pub fn new() -> Self {
        Self { add_special: true, parse_special: false }
    }

    /// Whether begin and end tokens are added where the vocabulary asks for them.
    #[must_use]
    pub fn add_special(mut self, add: bool) -> Self {
        self.add_special = add;
        self
    }

    /// Whether the text of control tokens becomes these tokens.
    #[must_use]
    pub fn parse_special(mut self, parse: bool) -> Self {
        self.parse_special = parse;
        self
    }
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self::new()
    }
}

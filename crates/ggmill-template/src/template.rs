//! A template, the options for rendering it, and the rendered text.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

#[cfg(feature = "tokens")]
use ggmill_tokenizer::Vocabulary;
use minijinja::machinery::Token;
use minijinja::machinery::ast::Stmt;

use crate::conversation::{Conversation, Field};
use crate::error::Error;
use crate::json::Json;
use crate::meter::{Limits, Meter};
use crate::moment::Moment;
use crate::probe::Probes;
use crate::run::Run;
use crate::source;

/// A parsed chat template.
///
/// ```
/// use ggmill_template::{Conversation, RenderOptions, Template};
/// let template = Template::parse(
///     "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{% endfor %}",
/// )?;
/// let conversation = Conversation::of([("user", "Hello")]);
/// let rendered = template.render(&conversation, &RenderOptions::new())?;
/// assert_eq!(rendered.text(), "<|user|>Hello");
/// # Ok::<(), ggmill_template::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    /// The prepared text for the parser; see [`source::prepare`].
    source: String,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// Fails if the text does not parse, is longer than 1 MiB or has an expression of more than
    /// 1000 tokens.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let source = source::prepare(text)?;
        source::tree(&source)?;
        Ok(Self { source })
    }

    /// Returns `true` if the text of the template contains `word`.
    #[cfg(feature = "tokens")]
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.source.contains(word)
    }

    /// Returns the features that the template supports in addition to messages, according to the
    /// names in its expressions and its tags.
    ///
    /// ```
    /// use ggmill_template::{Feature, Template};
    /// let template = Template::parse("{{ tools | tojson }} enable_thinking")?;
    /// assert_eq!(template.features(), [Feature::Tools]);
    /// # Ok::<(), ggmill_template::Error>(())
    /// ```
    pub fn features(&self) -> Vec<Feature> {
        let mut names = HashSet::new();
        for (token, _) in source::tokens(&self.source) {
            let (Token::Ident(name) | Token::Str(name)) = token else { continue };
            names.insert(name);
        }
        Feature::ALL.into_iter().filter(|feature| names.contains(feature.word())).collect()
    }

    /// Renders a conversation.
    ///
    /// # Errors
    ///
    /// Fails if the template rejects the conversation, does something that Python's Jinja in the
    /// sandbox of transformers refuses, or exceeds the limits.
    pub fn render(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> Result<Rendered, Error> {
        self.attempt(conversation, options).0
    }

    /// Renders a conversation and returns the number of steps, also if rendering fails.
    pub(crate) fn attempt(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> (Result<Rendered, Error>, u64) {
        match source::tree(&self.source) {
            Ok(tree) => self.attempt_parsed(&tree, conversation, options, None),
            Err(error) => (Err(error), 0),
        }
    }

    /// Like [`attempt`](Self::attempt) with the parsed [`source`](Self::source), and records the
    /// comparisons of contents with texts of the template.
    pub(crate) fn attempt_parsed(
        &self,
        tree: &Stmt<'_>,
        conversation: &Conversation,
        options: &RenderOptions,
        probes: Option<&Probes>,
    ) -> (Result<Rendered, Error>, u64) {
        let free = Limits::new().with_memory(usize::MAX).with_steps(u64::MAX);
        let meter = Meter::new(free);
        let rendered = self.render_within(tree, conversation, options, &meter, probes);
        (rendered, options.limits.steps.saturating_sub(meter.steps_left()))
    }

    /// Returns the text that is parsed.
    #[cfg(feature = "tokens")]
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    fn render_within(
        &self,
        tree: &Stmt<'_>,
        conversation: &Conversation,
        options: &RenderOptions,
        meter: &Rc<Meter>,
        probes: Option<&Probes>,
    ) -> Result<Rendered, Error> {
        // The values of the conversation are counted by the same meter.
        let (context, fields) = conversation.context(options, meter)?;
        meter.begin(options.limits);
        let mut run = Run::new(&self.source, &context, options.now, Rc::clone(meter));
        if let Some(probes) = probes {
            probes.begin(&fields);
            run.probes = Some(probes);
        }
        let text = run.render(tree)?;
        let mut segments = Vec::new();
        let mut start = 0;
        for (piece, mark) in text.pieces(0..text.len()) {
            let end = start + piece.len();
            segments.push(Segment {
                range: start..end,
                field: mark.number(),
                is_generated: mark.is_generated(),
            });
            start = end;
        }
        Ok(Rendered {
            text: text.finished().to_owned(),
            segments,
            fields,
            missing: run.missing.iter().cloned().collect(),
            asked_time: run.asked_time,
        })
    }
}

/// A part of a rendered text with one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// The byte range in the text.
    pub range: Range<usize>,
    /// The index of the field in [`Rendered::fields`] from which the text came; `None` for text of
    /// the template.
    pub field: Option<usize>,
    /// `true` if a `generation` block wrote it, which marks the model's own text.
    pub is_generated: bool,
}

/// A rendered conversation.
#[derive(Clone, Debug)]
pub struct Rendered {
    text: String,
    segments: Vec<Segment>,
    fields: Vec<Field>,
    missing: Vec<String>,
    asked_time: bool,
}

impl Rendered {
    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the origins of the parts of the text, in order and without gaps.
    ///
    /// Origins are preserved by all operations on text: slices, case changes, replacements and
    /// JSON.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the texts of the conversation, by index.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the field of a segment; `None` for text of the template.
    pub fn field(&self, segment: &Segment) -> Option<&Field> {
        segment.field.and_then(|number| self.fields.get(number))
    }

    /// Returns the ranges that may contain special tokens, in order: text of the template, and
    /// roles.
    pub fn trusted(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for segment in &self.segments {
            if self.field(segment).is_some_and(|field| !field.is_role) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end == segment.range.start => last.end = segment.range.end,
                _ => ranges.push(segment.range.clone()),
            }
        }
        ranges
    }

    /// Returns the ranges that `generation` blocks wrote, in order.
    pub fn generated(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for segment in self.segments.iter().filter(|segment| segment.is_generated) {
            match ranges.last_mut() {
                Some(last) if last.end == segment.range.start => last.end = segment.range.end,
                _ => ranges.push(segment.range.clone()),
            }
        }
        ranges
    }

    /// Returns the names of undefined variables that the template read.
    pub fn missing_variables(&self) -> &[String] {
        &self.missing
    }

    /// Returns `true` if the template used the current time.
    pub fn asks_time(&self) -> bool {
        self.asked_time
    }
}

/// Options for rendering.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RenderOptions {
    /// The limits of steps and memory.
    pub limits: Limits,
    /// The time of `strftime_now`. Without it, a template that uses the time fails.
    pub now: Option<Moment>,
    /// Special tokens by the names of their variables, such as `bos_token`. They count as text of
    /// the template.
    pub tokens: Vec<(String, String)>,
    /// Defaults of other variables. They replace tokens of the same name, and their text counts as
    /// text of the template.
    pub variables: Vec<(String, Json)>,
}

impl RenderOptions {
    /// Returns options with the default limits, no time, no special tokens and no variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the time.
    #[must_use]
    pub fn with_now(mut self, now: Moment) -> Self {
        self.now = Some(now);
        self
    }

    /// Adds a special token.
    #[must_use]
    pub fn with_token(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.tokens.push((name.into(), text.into()));
        self
    }

    /// Adds a default variable.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: Json) -> Self {
        self.variables.push((name.into(), value));
        self
    }

    /// Adds the special tokens of a vocabulary, by their names in templates. Tokens that the
    /// vocabulary does not have are omitted.
    #[cfg(feature = "tokens")]
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: &Vocabulary) -> Self {
        let ids = vocabulary.special_ids();
        // GGUF files have no separate CLS token.
        let ids = [ids.bos, ids.eos, ids.unk, ids.sep, ids.pad, ids.mask];
        for (name, id) in TOKENS.into_iter().zip(ids) {
            let text = id.and_then(|id| std::str::from_utf8(vocabulary.text(id)?).ok());
            if let Some(text) = text {
                self = self.with_token(name, text);
            }
        }
        self
    }

    /// Adds the begin, end, unknown and padding tokens of many vocabularies, for a template whose
    /// vocabulary is unknown. Tokens and variables that are already set are not changed.
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

/// An optional feature of a template.
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

    /// Returns the name in a template by which the feature is recognized.
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
    /// Formats the feature in words, such as `generation prompt`.
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

/// Maximum length of a marker between its brackets, in bytes.
const MAX_LEN: usize = 48;
/// Maximum number of distinct markers that are returned.
const MAX_MARKERS: usize = 1_024;

impl Rendered {
    /// Returns the distinct markers in the text, in order: parts of the template or of roles that
    /// look like special tokens. These are `<|…|>` anywhere, and `<…>` directly before or after a
    /// text of the conversation, apart from spaces and a role: `<start_of_turn>user
    /// Hello<end_of_turn>`. At most 1,024 are returned.
    ///
    /// ```
    /// use ggmill_template::{Conversation, RenderOptions, Template};
    /// let text = "{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}<x>";
    /// let conversation = Conversation::of([("user", "Is <b> bold?")]);
    /// let rendered = Template::parse(text)?.render(&conversation, &RenderOptions::new())?;
    /// assert_eq!(rendered.markers(), ["<turn>", "<|end|>"]);
    /// # Ok::<(), ggmill_template::Error>(())
    /// ```
    pub fn markers(&self) -> Vec<&str> {
        let mut found: Vec<(usize, &str)> = Vec::new();
        let mut known = HashSet::new();
        for range in self.trusted() {
            let (start, text) = (range.start, self.text().get(range).unwrap_or_default());
            let mut add = |at: usize, marker| {
                if found.len() < MAX_MARKERS && known.insert(marker) {
                    found.push((start + at, marker));
                }
            };
            barred(text).for_each(|(at, marker)| add(at, marker));
            if start > 0
                && let Some((at, marker)) = first(text)
            {
                add(at, marker);
            }
            if start + text.len() < self.text().len()
                && let Some((at, marker)) = last(text)
            {
                add(at, marker);
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, marker)| marker).collect()
    }
}

/// Returns `true` if `part` can be the inner part of a marker.
fn is_plain(part: &str) -> bool {
    !part.is_empty() && part.len() <= MAX_LEN && !part.contains(['<', '>', '\n', ' '])
}

/// Returns the parts of a text of the form `<|…|>` or `<｜…｜>`, with their offsets.
fn barred(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..)?;
            at += rest.find('<')?;
            let rest = text.get(at..)?;
            let found = rest.chars().nth(1).filter(|c| matches!(c, '|' | '｜')).and_then(|bar| {
                let inside = rest.get(1 + bar.len_utf8()..)?;
                // No marker is longer, and a text can have many beginnings without an end.
                let places = inside.char_indices().map(|(place, c)| place + c.len_utf8());
                let near = inside.get(..places.take_while(|end| *end <= MAX_LEN + 8).last()?)?;
                let part = near.get(..near.find(if bar == '|' { "|>" } else { "｜>" })?)?;
                rest.get(..2 + 2 * bar.len_utf8() + part.len()).filter(|_| is_plain(part))
            });
            let start = at;
            at += found.map_or(1, str::len);
            if let Some(marker) = found {
                return Some((start, marker));
            }
        }
    })
}

/// Returns the marker at the beginning of a text.
fn first(text: &str) -> Option<(usize, &str)> {
    let rest = text.trim_start();
    let part = rest.strip_prefix('<')?;
    let part = part.get(..part.find('>')?)?;
    rest.get(..part.len() + 2)
        .filter(|_| is_plain(part))
        .map(|found| (text.len() - rest.len(), found))
}

/// Returns the marker at the end of a text, before an optional role.
fn last(text: &str) -> Option<(usize, &str)> {
    let is_role = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let rest = text.trim_end().trim_end_matches(is_role).trim_end();
    let part = rest.strip_suffix('>')?;
    let at = part.rfind('<')?;
    rest.get(at..).filter(|_| part.get(at + 1..).is_some_and(is_plain)).map(|found| (at, found))
}

#[cfg(test)]
mod tests {
    use super::{barred, first, last};

    #[test]
    fn markers_with_bars_are_found_anywhere() {
        let text = "a <|im_end|>\n<｜User｜><| x|> <|a<|b|> <x> <||>";
        let found: Vec<_> = barred(text).collect();
        assert_eq!(found, [(2, "<|im_end|>"), (13, "<｜User｜>"), (35, "<|b|>")]);
        assert!(found.iter().all(|(at, marker)| text[*at..].starts_with(marker)));
    }

    #[test]
    fn markers_without_bars_are_next_to_texts() {
        for (text, at_start, at_end) in [
            (
                "<end_of_turn>\n<start_of_turn>model\n",
                Some("<end_of_turn>"),
                Some("<start_of_turn>"),
            ),
            ("</s>", Some("</s>"), Some("</s>")),
            ("<|turn>user\n", Some("<|turn>"), Some("<|turn>")),
            ("turn|>\n", None, None),
            ("Answer with <b> or <i> only.", None, None),
            ("<a b>", None, None),
            ("<>", None, None),
            ("", None, None),
        ] {
            assert_eq!(first(text).map(|(_, found)| found), at_start, "{text}");
            assert_eq!(last(text).map(|(_, found)| found), at_end, "{text}");
        }
    }
}

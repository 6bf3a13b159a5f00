//! A template, and what it makes of a conversation.

use std::ops::Range;

use crate::conversation::{Conversation, Field};
use crate::error::Error;
use crate::meter::{Limits, Meter};
use crate::moment::Moment;
use crate::run::Run;
use crate::source;

/// A chat template that parses.
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
    /// The text that the parser gets.
    source: String,
}

/// What a rendering takes besides a conversation.
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
}

impl RenderOptions {
    /// The usual limits; no time and no special tokens.
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
}

impl Template {
    /// Reads a template.
    ///
    /// Fails where it does not parse, and where it is longer than 1 MiB or has an expression of
    /// more than 1000 tokens.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let source = source::prepare(text)?;
        source::tree(&source)?;
        Ok(Self { source })
    }

    /// Whether the text of the template has a word.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.source.contains(word)
    }

    /// Renders a conversation.
    ///
    /// Fails where the template refuses the conversation, where it does what Python's Jinja in the
    /// sandbox of transformers refuses, and beyond the limits.
    pub fn render(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> Result<Rendered, Error> {
        let tree = source::tree(&self.source)?;
        let free = Limits::new().with_memory(usize::MAX).with_steps(u64::MAX);
        // What is made of the conversation counts as anything else does: it has the same meter.
        let meter = Meter::new(free);
        let (context, fields) = conversation.context(&options.tokens, &meter)?;
        meter.begin(options.limits);
        let mut run = Run::new(&self.source, &context, options.now, meter);
        let text = run.render(&tree)?;
        let mut segments = Vec::new();
        let mut start = 0;
        for (piece, mark) in text.pieces(0..text.as_str().len()) {
            let end = start + piece.len();
            segments.push(Segment {
                range: start..end,
                field: mark.number(),
                is_generated: mark.is_generated(),
            });
            start = end;
        }
        Ok(Rendered {
            text: text.as_str().to_owned(),
            segments,
            fields,
            missing: run.missing.iter().cloned().collect(),
            asked_time: run.asked_time,
        })
    }
}

/// A part of a rendered text that comes from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// The bytes.
    pub range: Range<usize>,
    /// The number of the field that the text came from, in [`Rendered::fields`]; none for text of
    /// the template.
    pub field: Option<usize>,
    /// Whether a `generation` block wrote it: the model's own text.
    pub is_generated: bool,
}

/// The text that a template made of a conversation.
#[derive(Clone, Debug)]
pub struct Rendered {
    text: String,
    segments: Vec<Segment>,
    fields: Vec<Field>,
    missing: Vec<String>,
    asked_time: bool,
}

impl Rendered {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the parts of the text come from, in order and without gaps.
    ///
    /// This is followed through all that a template does to text: parts, cases, replacements and
    /// JSON keep it.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The texts of the conversation, by number.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of a segment; none for text of the template.
    pub fn field(&self, segment: &Segment) -> Option<&Field> {
        segment.field.and_then(|number| self.fields.get(number))
    }

    /// The ranges that may have special tokens, in order: text of the template, and roles.
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

    /// The ranges that `generation` blocks wrote, in order.
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

    /// Names of variables that the template read and that do not exist.
    pub fn missing_variables(&self) -> &[String] {
        &self.missing
    }

    /// Whether the template asked for the time.
    pub fn asks_time(&self) -> bool {
        self.asked_time
    }
}

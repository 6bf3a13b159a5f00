//! A template, and what it makes of a conversation.

use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use minijinja::machinery::Token;

use crate::conversation::{Conversation, Field};
use crate::error::Error;
use crate::feature::Feature;
use crate::meter::{Limits, Meter};
use crate::options::RenderOptions;
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
    #[cfg(feature = "tokens")]
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.source.contains(word)
    }

    /// The features that the template supports in addition to messages, according to the names in
    /// its expressions and its tags.
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
    /// Fails where the template refuses the conversation, where it does what Python's Jinja in the
    /// sandbox of transformers refuses, and beyond the limits.
    pub fn render(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> Result<Rendered, Error> {
        self.attempt(conversation, options).0
    }

    /// As [`render`](Self::render), and the steps that it took, also where it fails.
    pub(crate) fn attempt(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> (Result<Rendered, Error>, u64) {
        let free = Limits::new().with_memory(usize::MAX).with_steps(u64::MAX);
        let meter = Meter::new(free);
        let rendered = self.render_within(conversation, options, &meter);
        (rendered, options.limits.steps.saturating_sub(meter.steps_left()))
    }

    fn render_within(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
        meter: &Rc<Meter>,
    ) -> Result<Rendered, Error> {
        let tree = source::tree(&self.source)?;
        // What is made of the conversation counts as anything else does: it has the same meter.
        let (context, fields) = conversation.context(options, meter)?;
        meter.begin(options.limits);
        let mut run = Run::new(&self.source, &context, options.now, Rc::clone(meter));
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

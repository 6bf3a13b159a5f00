//! Chat templates, and what they make of conversations.

use ggmill::template::{
    self as library, Conversation, Json, ModelTemplate, Moment, RenderOptions, TemplateFile,
    model_templates,
};
use pyo3::prelude::*;

use crate::error::Result;
use crate::model::OpenModel;
use crate::tokenizer::Tokenizer;

/// Templates: name, `None` for the default one, and text.
type Named = Vec<(Option<String>, String)>;

fn named(templates: Vec<ModelTemplate>) -> Named {
    templates.into_iter().map(|template| (template.name, template.text)).collect()
}

/// The templates of a model.
#[pyfunction]
pub(crate) fn templates(model: &OpenModel) -> Result<Named> {
    let model = model.open()?;
    Ok(named(model_templates(&model.metadata())))
}

/// The templates of a text, Jinja or a JSON document with `chat_template`, and the special tokens
/// that it names.
#[pyfunction]
pub(crate) fn templates_of_text(text: &str) -> Result<(Named, Vec<(String, String)>)> {
    let file = TemplateFile::parse(text)?;
    Ok((named(file.templates), file.tokens))
}

/// The special tokens of a tokenizer by the names of their variables, such as `bos_token`.
#[pyfunction]
pub(crate) fn template_tokens(tokenizer: &Tokenizer) -> Vec<(String, String)> {
    RenderOptions::new().with_vocabulary(tokenizer.0.vocabulary()).tokens
}

/// A template that parses. Several threads may use one at once.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Template(library::Template);

#[pymethods]
impl Template {
    #[new]
    fn new(py: Python<'_>, text: &str) -> Result<Self> {
        Ok(Self(py.detach(|| library::Template::parse(text))?))
    }

    /// Renders a conversation. What is JSON comes as text; `now` is in seconds since the beginning
    /// of 1970.
    #[pyo3(signature = (
        messages, *, tools = None, documents = None, add_generation_prompt = false,
        variables = vec![], tokens = vec![], now = None
    ))]
    fn render(
        &self,
        py: Python<'_>,
        messages: &str,
        tools: Option<&str>,
        documents: Option<&str>,
        add_generation_prompt: bool,
        variables: Vec<(String, String)>,
        tokens: Vec<(String, String)>,
        now: Option<i64>,
    ) -> Result<Rendered> {
        let rendered = py.detach(|| -> Result<library::Rendered> {
            let mut conversation = Conversation::new(Json::parse(messages)?)
                .with_generation_prompt(add_generation_prompt);
            conversation.tools = tools.map(Json::parse).transpose()?;
            conversation.documents = documents.map(Json::parse).transpose()?;
            for (name, value) in variables {
                conversation = conversation.with_variable(name, Json::parse(&value)?);
            }
            let mut options = RenderOptions::new();
            options.now = now.map(Moment::from_unix);
            options.tokens = tokens;
            Ok(self.0.render(&conversation, &options)?)
        })?;
        Ok(Rendered(rendered))
    }
}

/// A part of a rendered text: first byte, the byte after its last, the field of the conversation it
/// is from (`None`: the template), and whether a `generation` block wrote it.
type Segment = (usize, usize, Option<String>, bool);
/// A special token that text of a conversation has: its ID, its range of bytes, the field.
type Refused = (u32, usize, usize, String);

/// A rendered text.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Rendered(library::Rendered);

#[pymethods]
impl Rendered {
    fn text(&self) -> &str {
        self.0.text()
    }

    fn segments(&self) -> Vec<Segment> {
        let segment = |segment: &library::Segment| {
            let field = self.0.field(segment).map(|field| field.path.clone());
            (segment.range.start, segment.range.end, field, segment.is_generated)
        };
        self.0.segments().iter().map(segment).collect()
    }

    /// Names of variables that the template read and that do not exist.
    fn missing_variables(&self) -> Vec<String> {
        self.0.missing_variables().to_vec()
    }

    /// The IDs of the text, which of them the model said, and the special tokens that were taken as
    /// text.
    #[expect(clippy::type_complexity, reason = "three things")]
    fn encode(
        &self,
        py: Python<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<(Vec<(u32, usize, usize)>, Vec<bool>, Vec<Refused>)> {
        let tokens = py.detach(|| self.0.encode(&tokenizer.0))?;
        let pieces = tokens.pieces.iter().map(|piece| (piece.id, piece.start, piece.end)).collect();
        let refused = tokens
            .refused
            .into_iter()
            .map(|found| (found.id, found.range.start, found.range.end, found.path))
            .collect();
        Ok((pieces, tokens.generated, refused))
    }
}

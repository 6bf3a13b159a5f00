//! Tokenizers, and chat templates.

use std::path::PathBuf;

use ggmill::convert::{TokenizerFiles, convert_tokenizer};
use ggmill::template::{
    Conversation, Json, ModelTemplate, Moment, RenderOptions, TemplateFile, model_templates,
};
use ggmill::tokenizer::{DecodeOptions, EncodeOptions, LoadOptions, Piece};
use ggmill::{template, tokenizer};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::calls::thread_count;
use crate::error::Result;
use crate::model::OpenModel;
use crate::value::bytes_of;

/// Converts text to tokens and back. Several threads can use one at once.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Tokenizer(tokenizer::Tokenizer);

#[pymethods]
impl Tokenizer {
    #[new]
    #[pyo3(signature = (model, *, pre = None))]
    fn new(py: Python<'_>, model: &OpenModel, pre: Option<String>) -> Result<Self> {
        let model = model.open()?;
        let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
        let load = || tokenizer::Tokenizer::with_options(&model.metadata(), &options);
        Ok(Self(py.detach(load)?))
    }

    /// Opens tokenizer files: their directory, or one of them. Returns remarks about them too, and
    /// `None` for any other file, such as a model.
    #[staticmethod]
    #[pyo3(signature = (path, *, pre = None))]
    fn of_files(
        py: Python<'_>,
        path: PathBuf,
        pre: Option<&str>,
    ) -> Result<Option<(Self, Vec<String>)>> {
        let open = || -> Result<_> {
            let Some(files) = TokenizerFiles::open(&path)? else { return Ok(None) };
            let (metadata, remarks) = convert_tokenizer(&files, pre)?;
            Ok(Some((Self(tokenizer::Tokenizer::from_entries(metadata)?), remarks)))
        };
        py.detach(open).map_err(|failure| failure.at(&path))
    }

    fn __len__(&self) -> usize {
        self.0.vocabulary().len() as usize
    }

    /// Returns the kind of tokenizer: `bpe`, `spm`, ….
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.vocabulary().kind().name()
    }

    #[getter]
    fn pre_tokenizer(&self) -> Option<&'static str> {
        self.0.vocabulary().pre_tokenizer()
    }

    /// Returns the IDs of special tokens by role.
    fn special_ids(&self) -> Vec<(&'static str, Option<u32>)> {
        let ids = self.0.vocabulary().special_ids();
        vec![
            ("bos", ids.bos),
            ("eos", ids.eos),
            ("eot", ids.eot),
            ("eom", ids.eom),
            ("unk", ids.unk),
            ("sep", ids.sep),
            ("pad", ids.pad),
            ("mask", ids.mask),
            ("fim_pre", ids.fim_pre),
            ("fim_suf", ids.fim_suf),
            ("fim_mid", ids.fim_mid),
            ("fim_pad", ids.fim_pad),
            ("fim_rep", ids.fim_rep),
            ("fim_sep", ids.fim_sep),
        ]
    }

    /// Returns the IDs of the tokens that end the generation of a text.
    fn end_of_generation(&self) -> Vec<u32> {
        self.0.vocabulary().end_of_generation().to_vec()
    }

    #[pyo3(signature = (text, *, add_special = true, parse_special = false))]
    fn encode(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>> {
        let (text, options) = (bytes_of(text)?, options(add_special, parse_special));
        let mut ids = Vec::new();
        py.detach(|| self.0.encode(&text, &options, &mut ids))?;
        Ok(ids)
    }

    /// Encodes a text to IDs with their ranges in it, in bytes or in characters.
    #[pyo3(signature = (text, *, add_special = true, parse_special = false, characters = false))]
    fn encode_with_offsets(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        add_special: bool,
        parse_special: bool,
        characters: bool,
    ) -> Result<Vec<(u32, usize, usize)>> {
        let (text, options) = (bytes_of(text)?, options(add_special, parse_special));
        let pieces = py.detach(|| -> Result<Vec<Piece>> {
            let mut pieces = Vec::new();
            self.0.encode_with_offsets(&text, &options, &mut pieces)?;
            if characters {
                count_characters(&text, &mut pieces);
            }
            Ok(pieces)
        })?;
        Ok(pieces.into_iter().map(|piece| (piece.id, piece.start, piece.end)).collect())
    }

    /// Encodes several texts, on several threads.
    #[pyo3(signature = (texts, *, add_special = true, parse_special = false, threads = None))]
    fn encode_batch(
        &self,
        py: Python<'_>,
        texts: Vec<Bound<'_, PyAny>>,
        add_special: bool,
        parse_special: bool,
        threads: Option<usize>,
    ) -> Result<Vec<Vec<u32>>> {
        let texts = texts.iter().map(bytes_of).collect::<Result<Vec<_>>>()?;
        let options = options(add_special, parse_special);
        Ok(py.detach(|| self.0.encode_batch(&texts, &options, thread_count(threads)))?)
    }

    /// Counts the tokens of several texts, on several threads.
    #[pyo3(signature = (texts, *, add_special = true, parse_special = false, threads = None))]
    fn count_batch(
        &self,
        py: Python<'_>,
        texts: Vec<Bound<'_, PyAny>>,
        add_special: bool,
        parse_special: bool,
        threads: Option<usize>,
    ) -> Result<Vec<usize>> {
        let texts = texts.iter().map(bytes_of).collect::<Result<Vec<_>>>()?;
        let options = options(add_special, parse_special);
        Ok(py.detach(|| self.0.count_batch(&texts, &options, thread_count(threads)))?)
    }

    #[pyo3(signature = (text, *, add_special = true, parse_special = false))]
    fn count(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        add_special: bool,
        parse_special: bool,
    ) -> Result<usize> {
        let (text, options) = (bytes_of(text)?, options(add_special, parse_special));
        Ok(py.detach(|| self.0.count(&text, &options))?)
    }

    #[pyo3(signature = (ids, *, remove_special = false, unparse_special = false))]
    fn decode_bytes<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<u32>,
        remove_special: bool,
        unparse_special: bool,
    ) -> Result<Bound<'py, PyBytes>> {
        let options =
            DecodeOptions::new().remove_special(remove_special).unparse_special(unparse_special);
        let mut text = Vec::new();
        py.detach(|| self.0.decode(&ids, &options, &mut text))?;
        Ok(PyBytes::new(py, &text))
    }

    /// Returns the bytes of a token; `None` if the ID is not in the vocabulary.
    fn piece<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, PyBytes>> {
        self.0.piece(id).map(|piece| PyBytes::new(py, piece))
    }

    /// Returns the ID of the token with this text in the file.
    fn id(&self, text: &Bound<'_, PyAny>) -> Result<Option<u32>> {
        Ok(self.0.vocabulary().id(&bytes_of(text)?))
    }
}

/// Converts byte ranges to character ranges. A token that has only some bytes of a character gets the
/// whole character.
fn count_characters(text: &[u8], pieces: &mut [Piece]) {
    // In UTF-8 every byte except continuation bytes begins a character.
    let begins = |byte: &u8| byte & 0xc0 != 0x80;
    let (mut at, mut before) = (0, 0);
    for piece in pieces {
        // Ranges are in order, except that tokens of one character share its range.
        if piece.start < at {
            (at, before) = (0, 0);
        }
        let count = |range: &[u8]| range.iter().filter(|byte| begins(byte)).count();
        before += count(text.get(at..piece.start).unwrap_or_default());
        at = piece.start;
        let own = text.get(piece.start..piece.end).unwrap_or_default();
        let is_within = own.first().is_some_and(|first| !begins(first));
        piece.start = before - usize::from(is_within);
        piece.end = before + count(own);
    }
}

fn options(add_special: bool, parse_special: bool) -> EncodeOptions {
    EncodeOptions::new().add_special(add_special).parse_special(parse_special)
}

/// The names and texts of templates. The default template has no name.
type Templates = Vec<(Option<String>, String)>;

fn with_names(templates: Vec<ModelTemplate>) -> Templates {
    templates.into_iter().map(|template| (template.name, template.text)).collect()
}

/// Returns the chat templates of a model.
#[pyfunction]
pub(crate) fn templates(model: &OpenModel) -> Result<Templates> {
    let model = model.open()?;
    Ok(with_names(model_templates(&model.metadata())))
}

/// Parses a Jinja template, or a JSON document with `chat_template`, which can also name special tokens.
#[pyfunction]
pub(crate) fn templates_of_text(text: &str) -> Result<(Templates, Vec<(String, String)>)> {
    let file = TemplateFile::parse(text)?;
    Ok((with_names(file.templates), file.tokens))
}

/// Returns the special tokens of a tokenizer by the names of their variables, such as `bos_token`.
#[pyfunction]
pub(crate) fn template_tokens(tokenizer: &Tokenizer) -> Vec<(String, String)> {
    RenderOptions::new().with_vocabulary(tokenizer.0.vocabulary()).tokens
}

/// A chat template. Several threads can use one at once.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Template(template::Template);

#[pymethods]
impl Template {
    #[new]
    fn new(py: Python<'_>, text: &str) -> Result<Self> {
        Ok(Self(py.detach(|| template::Template::parse(text))?))
    }

    /// Renders a conversation. Messages, tools, documents and variables are JSON; `now` is in seconds
    /// since the Unix epoch.
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
        let rendered = py.detach(|| -> Result<template::Rendered> {
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

/// A part of a rendered text: its start and end in bytes, the field of the conversation that it comes
/// from (`None`: the template), and whether it is inside a `generation` block.
type Segment = (usize, usize, Option<String>, bool);
/// A special token in the text of a conversation: its ID, its byte range, the field.
type Refused = (u32, usize, usize, String);

/// A rendered text.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Rendered(template::Rendered);

#[pymethods]
impl Rendered {
    fn text(&self) -> &str {
        self.0.text()
    }

    fn segments(&self) -> Vec<Segment> {
        let segment = |segment: &template::Segment| {
            let field = self.0.field(segment).map(|field| field.path.clone());
            (segment.range.start, segment.range.end, field, segment.is_generated)
        };
        self.0.segments().iter().map(segment).collect()
    }

    /// Returns the names of undefined variables that the template used.
    fn missing_variables(&self) -> Vec<String> {
        self.0.missing_variables().to_vec()
    }

    /// Returns the IDs of the text with their byte ranges, whether each is text of the model, and the
    /// special tokens that were encoded as plain text.
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

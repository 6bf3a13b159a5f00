//! Running models over a text: computation graphs, tokenization and chunks.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue, near_part};
use ggmill_core::{RawStr, keys};
use ggmill_quantize::{Imatrix, ImatrixRun};
use ggmill_run::{
    Activations, Chunks, ErrorKind, GraphSource, Options as RunnerOptions, Probe, Program,
    RecordedLogits, Runner,
};
use ggmill_tokenizer::EncodeOptions;

use crate::error::Kind;
use crate::open::refuse_interrupted;
use crate::paths::is_remote;
use crate::progress::Call;
use crate::{Error, Hint, Model, Note, OpenOptions, Result, read_bytes, read_text};

/// The maximum size of a text, or of a list of tokens, in bytes.
const MAX_TEXT: u64 = 1 << 30;

/// The text of [`RunText::built_in`]. Its sources are in `data/README.md`.
const BUILT_IN: &str = include_str!("../../data/calibration.txt");

/// A text to run a model over, or its token IDs, divided into chunks.
#[derive(Clone, Debug)]
pub struct RunText {
    source: TextSource,
    context: usize,
    first: usize,
    most: Option<usize>,
}

#[derive(Clone, Debug)]
enum TextSource {
    File(PathBuf),
    TokenFile(PathBuf),
    Text(Cow<'static, str>),
    Tokens(Vec<u32>),
}

impl RunText {
    fn new(source: TextSource) -> Self {
        Self { source, context: Chunks::CONTEXT, first: 0, most: None }
    }

    /// Returns the text in a file, which is tokenized with the vocabulary of the model; `-` is standard
    /// input.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(TextSource::File(path.into()))
    }

    /// Returns the token IDs in a file, a JSON array; `-` is standard input.
    pub fn token_file(path: impl Into<PathBuf>) -> Self {
        Self::new(TextSource::TokenFile(path.into()))
    }

    /// Returns a text in memory, which is tokenized with the vocabulary of the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(TextSource::Text(Cow::Owned(text.into())))
    }

    /// Returns a text to calibrate with: about 64 chunks of 512 tokens of novels, documentation, law and
    /// code, most of it in English.
    pub fn built_in() -> Self {
        Self::new(TextSource::Text(Cow::Borrowed(BUILT_IN)))
    }

    /// Returns token IDs in memory.
    pub fn tokens(ids: impl Into<Vec<u32>>) -> Self {
        Self::new(TextSource::Tokens(ids.into()))
    }

    /// Sets the number of tokens per chunk.
    #[must_use]
    pub fn context(self, tokens: usize) -> Self {
        Self { context: tokens, ..self }
    }

    /// Skips the first `count` chunks.
    #[must_use]
    pub fn skip(self, count: usize) -> Self {
        Self { first: count, ..self }
    }

    /// Uses at most this number of chunks.
    #[must_use]
    pub fn chunks(self, most: Option<usize>) -> Self {
        Self { most, ..self }
    }

    /// Returns the path of the file; `None` for a text in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            TextSource::File(path) | TextSource::TokenFile(path) => Some(path),
            TextSource::Text(_) | TextSource::Tokens(_) => None,
        }
    }

    pub(crate) fn context_len(&self) -> usize {
        self.context
    }

    /// Returns the name under which an importance matrix lists the text.
    pub(crate) fn name(&self) -> Option<String> {
        self.path().map(|path| path.to_string_lossy().into_owned())
    }

    /// Returns the file that must not be overwritten; `None` for standard input and pipes.
    pub(crate) fn input(&self) -> Option<PathBuf> {
        let path = self.path().filter(|path| path.as_os_str() != "-" && path.is_file());
        path.map(Path::to_owned)
    }

    /// Reads the text, tokenizes it with the vocabulary of the model, and divides it into chunks.
    pub fn read(&self, model: &Model) -> Result<Chunks> {
        let (mut tokens, bos) = self.read_tokens(model)?;
        let found = tokens.len();
        // Chunks beyond the last used one are not copied. A text has at least two chunks.
        if let Some(most @ 1..) = self.most {
            let chunks = self.first.saturating_add(most).max(2);
            tokens.to_mut().truncate(chunks.saturating_mul(self.context));
        }
        let chunks = Chunks::of(&tokens, self.context, bos).map_err(|error| {
            let is_short = error.kind() == ErrorKind::TooShort;
            let error = Error::from(error);
            if is_short { error.replace_hint(Hint::SmallerChunks(Some(found))) } else { error }
        })?;
        let part = chunks.part(self.first, self.most);
        part.map_err(|error| Error::from(error).replace_hint(None))
    }

    /// Returns the tokens, and the BOS token that replaces the first token of each chunk, if there is
    /// one.
    fn read_tokens(&self, model: &Model) -> Result<(Cow<'_, [u32]>, Option<u32>)> {
        match &self.source {
            TextSource::Tokens(ids) => return Ok((ids.into(), None)),
            TextSource::TokenFile(path) => {
                let bytes = read_bytes(path, MAX_TEXT)?;
                let tokens: Vec<u32> = serde_json::from_slice(&bytes).map_err(|error| {
                    let message = format_args!("expected a JSON array of token IDs: {error}");
                    Error::malformed(message).at(path)
                })?;
                return Ok((tokens.into(), None));
            }
            TextSource::File(_) | TextSource::Text(_) => {}
        }
        let with_ids = |error: Error| {
            let first = error.hint().cloned().map(Box::new);
            error.replace_hint(Hint::TokenIds(first))
        };
        let tokenizer = model.tokenizer().map_err(with_ids)?;
        let text = match &self.source {
            TextSource::File(path) | TextSource::TokenFile(path) => {
                read_text(path, MAX_TEXT)?.into()
            }
            TextSource::Text(text) => Cow::Borrowed(&**text),
            TextSource::Tokens(_) => Cow::Borrowed(""),
        };
        let mut tokens = Vec::new();
        // A vocabulary without a tokenizer (tokenizer.ggml.model is `none`) loads, but cannot encode.
        tokenizer.encode(&*text, &EncodeOptions::new(), &mut tokens).map_err(|error| {
            let error = Error::from(error).replace_hint(Hint::TokenIds(None));
            within(error, model)
        })?;
        Ok((tokens.into(), tokenizer.vocabulary().leading_bos()))
    }
}

/// The options of the verbs that run models over a text.
#[derive(Debug, Default)]
pub(crate) struct RunChoices {
    pub(crate) text: Option<RunText>,
    pub(crate) memory: Option<u64>,
    pub(crate) architectures: Vec<Architecture>,
    pub(crate) graph: Option<GraphSource>,
}

impl RunChoices {
    pub(crate) fn catalogue(&self) -> Catalogue {
        self.architectures.iter().cloned().fold(Catalogue::new(), Catalogue::with)
    }

    pub(crate) fn text(&self) -> Result<&RunText> {
        self.text.as_ref().ok_or_else(|| Error::misuse("expected a text"))
    }

    pub(crate) fn runner(&self, threads: Option<usize>) -> Result<Runner> {
        runner(threads, self.memory)
    }
}

/// Starts the threads of a run. `memory` limits the memory for intermediate results, in bytes.
pub(super) fn runner(threads: Option<usize>, memory: Option<u64>) -> Result<Runner> {
    let mut options = RunnerOptions::default().with_threads(threads);
    if let Some(memory) = memory {
        options = options.with_memory(memory);
    }
    Ok(Runner::new(options)?)
}

/// Generates the methods for the options of verbs that run models over a text. The builder has a
/// field `running` of type [`RunChoices`].
macro_rules! run_options {
    () => {
        /// Sets the text. Its length must be at least two chunks.
        #[must_use]
        pub fn text(mut self, text: crate::RunText) -> Self {
            self.running.text = Some(text);
            self
        }

        /// Limits the memory for intermediate results, in bytes. This limits the number of chunks that
        /// are computed at once, and does not change the result.
        #[must_use]
        pub fn memory(mut self, bytes: u64) -> Self {
            self.running.memory = Some(bytes);
            self
        }

        /// Reads descriptions of architectures, in addition to the built-in ones.
        pub fn architectures(mut self, paths: &[std::path::PathBuf]) -> crate::Result<Self> {
            self.running.architectures.extend(crate::read_architectures(paths)?);
            Ok(self)
        }

        /// Selects the computation graph: that of the architecture's description, or the one in the
        /// file. By default, the description is preferred.
        #[must_use]
        pub fn graph(mut self, source: ggmill_run::GraphSource) -> Self {
            self.running.graph = Some(source);
            self
        }
    };
}
pub(crate) use run_options;

/// Converts an error, and puts the path of a model before its message.
pub(crate) fn within(error: Error, model: &Model) -> Error {
    match model.path() {
        Some(path) => error.within(path),
        None => error,
    }
}

/// Converts an error, and puts the path of a model before its message, unless a callback cancelled the
/// run.
pub(crate) fn located(error: Error, model: &Model) -> Error {
    if error.is_cancelled() { error } else { within(error, model) }
}

/// Returns the program that runs a model, from the computation graph in the description of its
/// architecture, else from the graph in its file; `only` selects one of them. Fails with a hint if
/// there is no graph.
pub fn find_program<'m>(
    model: &'m Model,
    catalogue: &Catalogue,
    only: Option<GraphSource>,
) -> Result<Program<'m>> {
    let described = catalogue.for_metadata(model.metadata());
    Program::find(model.core(), described, only)
        .map_err(|error| not_found(error, model, catalogue, only.is_none()))
}

/// Returns the program that runs a model, from the description of its architecture. Fails with a hint if
/// that has no graph.
pub(crate) fn described_program<'m>(
    model: &'m Model,
    catalogue: &Catalogue,
) -> Result<Program<'m>> {
    let described = catalogue.for_metadata(model.metadata());
    Program::find(model.core(), described, Some(GraphSource::Description))
        .map_err(|error| not_found(error, model, catalogue, true))
}

fn not_found(
    error: ggmill_run::Error,
    model: &Model,
    catalogue: &Catalogue,
    explains: bool,
) -> Error {
    let error = if error.kind() == ErrorKind::NoGraph && explains {
        match model.metadata().str(keys::GENERAL_ARCHITECTURE) {
            Ok(name) => no_graph(name, catalogue),
            Err(error) => error.into(),
        }
    } else {
        error.into()
    };
    within(error, model)
}

/// Returns the program that runs a model. Adds a note if it is the graph in the file and the caller did
/// not select that.
pub(crate) fn program_with_note<'m>(
    model: &'m Model,
    catalogue: &Catalogue,
    only: Option<GraphSource>,
    call: &mut Call<'_>,
) -> Result<Program<'m>> {
    let program = find_program(model, catalogue, only)?;
    if program.graph_source() == GraphSource::File
        && only.is_none()
        && let Some(path) = model.path()
    {
        call.note(Note::GraphInFile(path.to_owned()));
    }
    Ok(program)
}

/// Returns the error for an architecture without a computation graph.
pub fn no_graph(name: &str, catalogue: &Catalogue) -> Error {
    let error = |why: &str| {
        let name = RawStr::from(name);
        let message = format_args!("there is no computation graph for {name:?}: {why}");
        Error::new(Kind::Unsupported, "no_graph", message)
    };
    let described = catalogue.by_name(name);
    if let Some(why) = described.and_then(Architecture::without_graph) {
        // The operations of this architecture cannot be described, so there is no hint.
        return error(why);
    }
    let why = if described.is_some() {
        "the description of its architecture has none"
    } else {
        "the architecture is unknown"
    };
    let near = near_graph(name, catalogue).filter(|near| near != name);
    error(why).with_hint(Hint::DescribeGraph(near))
}

/// Returns the most similar name of an architecture with a computation graph.
fn near_graph(name: &str, catalogue: &Catalogue) -> Option<String> {
    let has_graph = |name: &str| catalogue.by_name(name).is_some_and(Architecture::has_graph);
    let near = near_part(name, catalogue.names())?;
    if has_graph(&near) {
        return Some(near);
    }
    // Only this case parses every description.
    near_part(name, catalogue.names().filter(|name| has_graph(name)))
}

/// Adds a note about experts without activations.
pub(crate) fn note_unused_experts(sums: &Activations, call: &mut Call<'_>) {
    let count = sums.tensors().filter(|tensor| tensor.unused() > 0).count();
    if count > 0 {
        call.note(Note::UnusedExperts(count));
    }
}

/// Returns the importance matrix for activations over `chunks` chunks.
pub(crate) fn imatrix_of(run: &ImatrixRun, sums: &Activations, chunks: usize) -> Result<Imatrix> {
    let sums = sums.tensors().map(|tensor| (tensor.name.as_str(), &*tensor.sums, &*tensor.counts));
    Ok(run.imatrix(sums, chunks)?)
}

/// Reads the logits that another program computed from a model: a GGUF file with the tensors
/// `tokens` and `logits`.
pub fn read_recorded(path: impl AsRef<Path>, options: &OpenOptions) -> Result<RecordedLogits> {
    let path = path.as_ref();
    refuse_interrupted(&[path])?;
    let not_recorded = |cause: &dyn std::fmt::Display| {
        let message = format_args!("expected recorded logits: {cause}");
        Error::malformed(message).at(path).with_hint(Hint::RecordedLogits)
    };
    let model = if is_remote(path) {
        options.open(path)?
    } else {
        let model = ggmill_io::open(path).map_err(|error| match error.format_error() {
            Some(cause) => not_recorded(cause),
            None => error.into(),
        })?;
        Model::from(model)
    };
    RecordedLogits::read(model.core()).map_err(|error| not_recorded(&error))
}

/// Runs a model over a few tokens: those of recorded logits, or generated ones. Returns the outputs, and
/// the facts worth knowing about the run.
///
/// ```no_run
/// let model = ggmill::Model::open("model.gguf")?;
/// let (found, _) = ggmill::probe(&model, None, &ggmill::arch::Catalogue::new())?;
/// assert!(found.faults().is_empty());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn probe(
    model: &Model,
    recorded: Option<&RecordedLogits>,
    catalogue: &Catalogue,
) -> Result<(Probe, Vec<Note>)> {
    let mut call = Call::default();
    let found = probe_with(model, recorded, catalogue, &mut call)?;
    Ok((found, call.notes))
}

pub(crate) fn probe_with(
    model: &Model,
    recorded: Option<&RecordedLogits>,
    catalogue: &Catalogue,
    call: &mut Call<'_>,
) -> Result<Probe> {
    let program = program_with_note(model, catalogue, None, call)?;
    let located = |error: ggmill_run::Error| within(error.into(), model);
    let runner = runner(call.threads, None).map_err(|error| within(error, model))?;
    ggmill_run::probe(&runner, &program, recorded).map_err(located)
}

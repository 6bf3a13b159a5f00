//! Running models over a text: the computation graph, the tokenizer, the chunks.

use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue, near_part};
use ggmill_core::{RawStr, keys};
use ggmill_quantize::{Imatrix, ImatrixRun};
use ggmill_run::{
    Activations, Chunks, ErrorKind, GraphSource, Options as RunnerOptions, Probe, Program,
    Recorded, Runner, probe,
};
use ggmill_tokenizer::{EncodeOptions, LoadOptions, Tokenizer};

use crate::error::Kind;
use crate::paths::is_remote;
use crate::progress::Call;
use crate::{Error, Hint, Model, Note, OpenOptions, Result, read_bytes, read_text};

/// The longest text, or list of tokens, in bytes.
const MAX_TEXT: u64 = 1 << 30;

/// A text that a model is run over, or the IDs of its tokens, divided into chunks.
#[derive(Clone, Debug)]
pub struct RunText {
    path: PathBuf,
    is_tokens: bool,
    context: usize,
    most: Option<usize>,
}

impl RunText {
    /// The text in a file, which is tokenized with the vocabulary of the model; `-` is standard
    /// input.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), is_tokens: false, context: Chunks::CONTEXT, most: None }
    }

    /// The token IDs in a file, a JSON array; `-` is standard input.
    pub fn tokens(path: impl Into<PathBuf>) -> Self {
        Self { is_tokens: true, ..Self::file(path) }
    }

    /// Sets the number of tokens per chunk.
    #[must_use]
    pub fn context(self, tokens: usize) -> Self {
        Self { context: tokens, ..self }
    }

    /// Uses only the first `most` chunks.
    #[must_use]
    pub fn chunks(self, most: Option<usize>) -> Self {
        Self { most, ..self }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file, unless it is standard input.
    pub(crate) fn input(&self) -> Option<&PathBuf> {
        Some(&self.path).filter(|path| path.as_os_str() != "-")
    }

    /// Reads and divides the text, for a model with this vocabulary.
    pub fn read(&self, model: &Model) -> Result<Chunks> {
        let (tokens, bos) = self.read_tokens(model)?;
        let found = tokens.len();
        let most = self.most.map_or(found, |chunks| chunks.saturating_mul(self.context));
        let tokens = tokens.get(..most.min(found)).unwrap_or_default();
        Chunks::of(tokens, self.context, bos).map_err(|error| {
            // Where only a part of the text was asked for, smaller chunks were not.
            let is_short = error.kind() == ErrorKind::TooShort && tokens.len() == found;
            let error = Error::from(error);
            if is_short { error.replace_hint(Hint::SmallerChunks(Some(found))) } else { error }
        })
    }

    /// Returns the tokens, and the token that each chunk of a text begins with, if there is one.
    fn read_tokens(&self, model: &Model) -> Result<(Vec<u32>, Option<u32>)> {
        if self.is_tokens {
            let bytes = read_bytes(&self.path, MAX_TEXT)?;
            let tokens: Vec<u32> = serde_json::from_slice(&bytes).map_err(|error| {
                let message = format_args!("expected a JSON array of token IDs: {error}");
                Error::malformed(message).at(&self.path)
            })?;
            return Ok((tokens, None));
        }
        let with_ids = |error: Error| {
            let before = error.hint().cloned().map(Box::new);
            error.replace_hint(Hint::TokenIds(before))
        };
        let tokenizer = tokenizer(model, None).map_err(with_ids)?;
        let text = read_text(&self.path, MAX_TEXT)?;
        let mut tokens = Vec::new();
        // A model can say that it has no tokenizer.
        tokenizer.encode(&text, &EncodeOptions::new(), &mut tokens).map_err(|error| {
            let error = Error::from(error).replace_hint(Hint::TokenIds(None));
            within(error, model)
        })?;
        Ok((tokens, tokenizer.vocabulary().leading_bos()))
    }
}

/// Returns the tokenizer of a model, with the pre-tokenizer of this name instead of its own.
pub fn tokenizer(model: &Model, pre: Option<&str>) -> Result<Tokenizer> {
    let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
    Tokenizer::with_options(&model.metadata(), &options)
        .map_err(|error| within(Error::from(error), model))
}

/// Puts the path of a model before a message.
pub(crate) fn within(error: Error, model: &Model) -> Error {
    match model.path() {
        Some(path) => error.within(path),
        None => error,
    }
}

/// Returns the program that runs a model: by the description of its architecture if that has a
/// graph, else by the graph in its file, or only by one of them. Fails with a hint if there is none.
pub fn find_program<'m>(
    model: &'m Model,
    catalogue: &Catalogue,
    only: Option<GraphSource>,
) -> Result<Program<'m>> {
    let described = catalogue.for_metadata(model.metadata());
    Program::find(model.core(), described, only)
        .map_err(|error| not_found(error, model, catalogue, only.is_none()))
}

/// Returns the program of a model by the description of its architecture. Fails with a hint if that
/// has no graph.
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

/// Returns the program that runs a model, and notes that it is the graph in the file.
pub(crate) fn program_with_note<'m>(
    model: &'m Model,
    catalogue: &Catalogue,
    call: &mut Call<'_>,
) -> Result<Program<'m>> {
    let program = find_program(model, catalogue, None)?;
    if program.graph_source() == GraphSource::File
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
        // No description of it could have one.
        return error(why);
    }
    let why = if described.is_some() {
        "the description of its architecture has none"
    } else {
        "the architecture is unknown"
    };
    let has_graph = |name: &&str| catalogue.by_name(name).is_some_and(Architecture::has_graph);
    let names = catalogue.architectures().map(Architecture::name).filter(has_graph);
    let near = near_part(name, names).filter(|near| near != name);
    error(why).with_hint(Hint::DescribeGraph(near))
}

/// Notes experts that no activations are known of.
pub(crate) fn note_unused_experts(sums: &Activations, call: &mut Call<'_>) {
    let count = sums.tensors().filter(|tensor| tensor.unused() > 0).count();
    if count > 0 {
        call.note(Note::UnusedExperts(count));
    }
}

/// Returns the importance matrix of activations over this many chunks.
pub(crate) fn imatrix_of(run: &ImatrixRun, sums: &Activations, chunks: usize) -> Result<Imatrix> {
    let sums = sums.tensors().map(|tensor| (tensor.name.as_str(), &*tensor.sums, &*tensor.counts));
    Ok(run.imatrix(sums, chunks)?)
}

/// Reads the logits that another program computed from a model: a GGUF file with the tensors
/// `tokens` and `logits`.
pub fn read_recorded(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Recorded> {
    let path = path.as_ref();
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
    Recorded::read(model.core()).map_err(|error| not_recorded(&error))
}

/// Runs a model over a few tokens: those of recorded logits, or made-up ones.
pub(crate) fn probe_file(
    model: &Model,
    recorded: Option<&Recorded>,
    catalogue: &Catalogue,
    call: &mut Call<'_>,
) -> Result<Probe> {
    let program = program_with_note(model, catalogue, call)?;
    let located = |error: ggmill_run::Error| within(error.into(), model);
    let options = RunnerOptions::default().with_threads(call.threads);
    let runner = Runner::new(options).map_err(located)?;
    probe(&runner, &program, recorded).map_err(located)
}

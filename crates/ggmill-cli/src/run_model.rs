//! Models that are run over a text: their computation graph, and the tokens of the text.

use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue, near_part};
use ggmill_core::{Model, RawStr, keys};
use ggmill_run::{Activations, Chunks, ErrorKind, GraphSource, Options, Program, Runner};
use ggmill_tokenizer::EncodeOptions;

use crate::arch_file::catalogue;
use crate::byte_size::byte_size;
use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::text_file::{read_bytes, read_text};
use crate::tokenizer::open_tokenizer;

/// Bytes of the longest text or list of tokens.
const MAX_TEXT: u64 = 1 << 30;

impl Failure {
    /// Names the file that a failure is about.
    pub(crate) fn within(self, path: &Path) -> Self {
        match self {
            Self::Refused { message, hint } => {
                Self::Refused { message: format!("{}: {message}", shown(path)), hint }
            }
            Self::Closed => Self::Closed,
        }
    }

    /// Adds what else can be done about it.
    fn with_another_hint(self, more: String) -> Self {
        match self {
            Self::Refused { message, hint } => {
                let hint = match hint {
                    Some(hint) => format!("{hint}; {more}"),
                    None => more,
                };
                Self::Refused { message, hint: Some(hint) }
            }
            Self::Closed => Self::Closed,
        }
    }
}

pub(crate) fn failed(path: &Path, error: &ggmill_run::Error) -> Failure {
    refused(error).within(path)
}

/// An error, with what to do about it.
pub(crate) fn refused(error: &ggmill_run::Error) -> Failure {
    Failure::new(error).with_hint(hint(error.kind()))
}

/// What to do about a text with fewer tokens than two chunks.
const SMALLER_CHUNKS: &str = "--ctx N takes smaller chunks, of at most half the tokens of the text";

/// The same with the largest chunks that the tokens allow, or that no chunks are small enough.
fn what_helps_too_short(tokens: usize) -> String {
    let context = tokens / 2;
    if context < Chunks::MIN_CONTEXT {
        return "a longer text is needed: it is too short for any --ctx".to_owned();
    }
    format!("{SMALLER_CHUNKS}: --ctx {context}")
}

/// What to do about an error.
fn hint(kind: ErrorKind) -> Option<String> {
    let text = match kind {
        ErrorKind::TooShort => SMALLER_CHUNKS,
        ErrorKind::Chunks => "--ctx N takes larger chunks",
        ErrorKind::Memory => "--memory SIZE allows more, --ctx N needs less",
        ErrorKind::NotFinite => "`ggmill check --data FILE` lists the weights that are not finite",
        ErrorKind::SourceVectors => {
            "`ggmill check FILE --run` runs it over made-up vectors, and `ggmill check FILE \
             --run=LOGITS.gguf` over recorded ones"
        }
        ErrorKind::DecoderStart => {
            "`ggmill edit FILE --set ARCHITECTURE.decoder_start_token_id=ID` adds it; the ID is \
             decoder_start_token_id in the config.json of the checkpoint (0 for T5)"
        }
        ErrorKind::Vocabulary => "both models need the same vocabulary",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Why work on chunks of a text ended early.
pub(crate) struct Stopped(pub(crate) Failure);

impl From<ggmill_run::Error> for Stopped {
    fn from(error: ggmill_run::Error) -> Self {
        Self(refused(&error))
    }
}

/// How a model is run: with what, and by which computation graph.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Number of threads [default: one per core]
    #[arg(long, short = 't', value_name = "N")]
    threads: Option<usize>,
    /// Memory for intermediate results; it limits how many chunks are computed at once
    #[arg(long, value_name = "SIZE", value_parser = byte_size, default_value = "2GiB")]
    memory: u64,
    /// A file or directory with descriptions of architectures
    #[arg(long, value_name = "PATH")]
    arch_file: Vec<PathBuf>,
    /// The computation graph to run: that of the architecture's description, or the one stored in
    /// the file [default: the description's, if there is one]
    #[arg(long, value_name = "SOURCE", value_enum)]
    graph: Option<Source>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Source {
    Description,
    File,
}

impl RunArgs {
    /// What runs models.
    pub(crate) fn runner(&self) -> Result<Runner, Stopped> {
        let options = Options::default().with_threads(self.threads).with_memory(self.memory);
        Ok(Runner::new(options)?)
    }

    /// The descriptions there are.
    pub(crate) fn catalogue(&self) -> Result<Catalogue, Failure> {
        catalogue(&self.arch_file)
    }

    /// The program of a model.
    pub(crate) fn program<'m>(
        &self,
        path: &Path,
        model: &'m Model,
        catalogue: &Catalogue,
        console: Console,
    ) -> Result<Program<'m>, Failure> {
        let only = self.graph.map(|source| match source {
            Source::Description => GraphSource::Description,
            Source::File => GraphSource::File,
        });
        found_program(path, model, catalogue, only, console)
    }
}

/// The program of a model. A note says that the graph comes from the file, unless it was asked for.
pub(crate) fn found_program<'m>(
    path: &Path,
    model: &'m Model,
    catalogue: &Catalogue,
    only: Option<GraphSource>,
    console: Console,
) -> Result<Program<'m>, Failure> {
    let described = catalogue.for_metadata(model.metadata());
    let program = Program::find(model, described, only).map_err(|error| {
        if error.kind() == ErrorKind::NoGraph && only.is_none() {
            of_model_without_graph(path, model, catalogue)
        } else {
            failed(path, &error)
        }
    })?;
    if program.graph_source() == GraphSource::File && only.is_none() {
        console.note(format_args!("{} is run from the computation graph in the file", shown(path)));
    }
    Ok(program)
}

/// The text that a model is run over.
#[derive(Debug, clap::Args)]
pub(crate) struct TextArgs {
    /// The text, which is tokenized with the model's vocabulary; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "tokens",
        conflicts_with = "tokens"
    )]
    text: Option<PathBuf>,
    /// Token IDs instead of a text, as a JSON array; - is standard input
    #[arg(long, value_name = "IDS.json")]
    tokens: Option<PathBuf>,
    /// Number of tokens per chunk
    #[arg(long, short = 'c', value_name = "N", default_value_t = Chunks::CONTEXT)]
    ctx: usize,
}

impl TextArgs {
    /// Where the text, or its tokens, come from.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        self.text.as_ref().or(self.tokens.as_ref())
    }

    /// Tokens of a chunk.
    pub(crate) fn context(&self) -> usize {
        self.ctx
    }

    /// The text in chunks, at most so many of them.
    pub(crate) fn chunks(
        &self,
        model: &Path,
        most: Option<usize>,
        console: Console,
    ) -> Result<Chunks, Failure> {
        let (text, listed) = (self.text.as_deref(), self.tokens.as_deref());
        chunks(model, text, listed, "--tokens", (self.ctx, most), console)
    }
}

/// What is said of a model that has no graph from anywhere.
pub(crate) fn of_model_without_graph(path: &Path, model: &Model, catalogue: &Catalogue) -> Failure {
    match model.metadata().str(keys::GENERAL_ARCHITECTURE) {
        Ok(name) => without_graph(name, catalogue).within(path),
        Err(error) => Failure::new(format_args!("{}: {error}", shown(path))),
    }
}

/// What is said of an architecture without a graph: first the way out, then what is near.
pub(crate) fn without_graph(name: &str, catalogue: &Catalogue) -> Failure {
    let failure = |why: &str| {
        let name = RawStr::from(name);
        Failure::new(format_args!("there is no computation graph for {name:?}: {why}"))
    };
    let described = catalogue.by_name(name);
    if let Some(why) = described.and_then(Architecture::without_graph) {
        // No description of it could have one.
        return failure(why);
    }
    let why = if described.is_some() {
        "the description of its architecture has none"
    } else {
        "the architecture is unknown"
    };
    let has_graph = |name: &&str| catalogue.by_name(name).is_some_and(Architecture::has_graph);
    let names = catalogue.architectures().map(Architecture::name).filter(has_graph);
    let near = near_part(name, names);
    let similar = match near.as_deref().filter(|near| *near != name) {
        Some(near) => format!(
            "the most similar name is {near}: `ggmill explain {near} --description` prints its \
             description, to change a copy of it"
        ),
        None => "`ggmill architectures` lists the known ones, and `ggmill explain NAME \
                 --description` prints a description, to change a copy of it"
            .to_owned(),
    };
    failure(why)
        .with_hint(Some(format!("--arch-file FILE adds a description with a graph; {similar}")))
}

/// The sums of each tensor, as an [`ImatrixRun`](ggmill_quantize::ImatrixRun) takes them.
pub(crate) fn sums_of(sums: &Activations) -> impl Iterator<Item = (&str, &[f64], &[u64])> {
    sums.tensors().map(|tensor| (tensor.name.as_str(), &*tensor.sums, &*tensor.counts))
}

/// Warns of experts that no activations are known of.
pub(crate) fn warn_of_unused(sums: &Activations, console: Console) {
    let partly = sums.tensors().filter(|tensor| tensor.unused() > 0).count();
    if partly > 0 {
        console.warn(format_args!(
            "{partly} tensors have experts that no token of the text was routed to: a longer text \
             may reach them"
        ));
    }
}

/// The tokens of a text, or those that a file lists, in chunks of so many, and at most so many chunks.
/// `option` is the one that takes a list of tokens.
pub(crate) fn chunks(
    model: &Path,
    text: Option<&Path>,
    listed: Option<&Path>,
    option: &str,
    (context, most): (usize, Option<usize>),
    console: Console,
) -> Result<Chunks, Failure> {
    let (tokens, bos) = tokens(model, text, listed, option, console)?;
    let found = tokens.len();
    let most = most.map_or(found, |chunks| chunks.saturating_mul(context));
    let tokens = tokens.get(..most.min(tokens.len())).unwrap_or_default();
    Chunks::of(tokens, context, bos).map_err(|error| {
        // A smaller part of the text was asked for, and not smaller chunks.
        let is_short = error.kind() == ErrorKind::TooShort && tokens.len() == found;
        let hint = is_short.then(|| what_helps_too_short(found));
        Failure::new(&error).with_hint(hint.or_else(|| self::hint(error.kind())))
    })
}

/// The tokens of a text, or those that a file lists, and the token that each chunk of the text begins
/// with, where there is one.
fn tokens(
    model: &Path,
    text: Option<&Path>,
    tokens: Option<&Path>,
    option: &str,
    console: Console,
) -> Result<(Vec<u32>, Option<u32>), Failure> {
    if let Some(path) = tokens {
        let bytes = read_bytes(path, MAX_TEXT)?;
        let tokens: Vec<u32> = serde_json::from_slice(&bytes).map_err(|error| {
            Failure::new(format_args!(
                "{}: expected a JSON array of token IDs: {error}",
                shown(path)
            ))
        })?;
        return Ok((tokens, None));
    }
    let path = text.unwrap_or(Path::new("-"));
    let instead = || format!("{option} IDS.json takes the IDs of tokens instead");
    let tokenizer = open_tokenizer(model, None, console)
        .map_err(|failure| failure.with_another_hint(instead()))?;
    let text = read_text(path, MAX_TEXT)?;
    let mut tokens = Vec::new();
    // A model can say that it has no tokenizer.
    tokenizer
        .encode(&text, &EncodeOptions::new(), &mut tokens)
        .map_err(|error| Failure::new(error).within(model).with_hint(Some(instead())))?;
    Ok((tokens, tokenizer.vocabulary().leading_bos()))
}

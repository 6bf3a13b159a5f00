//! The options of the commands that run a model over a text.

use std::path::{Path, PathBuf};

use ggmill::RunText;
use ggmill_run::{Chunks, GraphSource};

use crate::byte_size::byte_size;

/// How a model is run: with what, and by which computation graph.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Number of threads [default: one per core]
    #[arg(long, short = 't', value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Memory for intermediate results; it limits how many chunks are computed at once
    #[arg(long, value_name = "SIZE", value_parser = byte_size, default_value = "2GiB")]
    pub(crate) memory: u64,
    /// A file or directory with descriptions of architectures
    #[arg(long, value_name = "PATH")]
    pub(crate) arch_file: Vec<PathBuf>,
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
    pub(crate) fn graph(&self) -> Option<GraphSource> {
        self.graph.map(|source| match source {
            Source::Description => GraphSource::Description,
            Source::File => GraphSource::File,
        })
    }
}

/// Sets the options of [`RunArgs`] and [`TextArgs`] for a call of the library. The text has the
/// options of the chunks already.
macro_rules! with_run {
    ($args:expr, $text:expr, $builder:expr) => {{
        let args: &$crate::run_model::RunArgs = $args;
        let mut builder =
            $builder.text($text).memory(args.memory).architectures(&args.arch_file)?;
        if let Some(threads) = args.threads {
            builder = builder.threads(threads);
        }
        if let Some(source) = args.graph() {
            builder = builder.graph(source);
        }
        builder
    }};
}
pub(crate) use with_run;

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
    pub(crate) fn run_text(&self) -> RunText {
        let text = self.text.as_deref().unwrap_or(Path::new("-"));
        let text = self.tokens.as_ref().map_or_else(|| RunText::file(text), RunText::token_file);
        text.context(self.ctx)
    }
}

//! Options that several commands share, and the parsers of their values.

use std::path::{Path, PathBuf};

use ggmill::RunText;
use ggmill_pipeline::{ShardLimit, SplitOptions};
use ggmill_run::{Chunks, GraphSource};

/// Parses a size in bytes, such as `4.2G` (powers of 1000) or `4.2GiB` (powers of 1024).
pub(crate) fn byte_size(text: &str) -> Result<u64, String> {
    let expected =
        || "expected a number followed by K, M, G or T, such as 4.2G or 4.2GiB".to_owned();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at).ok_or_else(expected)?;
    let number: f64 = number.parse().map_err(|_| expected())?;
    let unit = unit.trim_start().to_ascii_uppercase();
    let powers = |base: f64, ends: [&str; 2]| {
        ["K", "M", "G", "T"]
            .iter()
            .zip(1..)
            .find(|(letter, _)| ends.iter().any(|end| unit == format!("{letter}{end}")))
            .map(|(_, power)| base.powi(power))
    };
    let factor = if unit.is_empty() || unit == "B" {
        Some(1.0)
    } else {
        powers(1000.0, ["", "B"]).or_else(|| powers(1024.0, ["I", "IB"]))
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; sizes above u64::MAX saturate"
    )]
    factor.map(|factor| (number * factor) as u64).filter(|&size| size > 0).ok_or_else(expected)
}

/// Parses a size as [`byte_size`] does; 0 is allowed, too.
pub(crate) fn byte_size_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { byte_size(text) }
}

/// Parses a number of threads; 0 is one per core. The number is limited, because each thread allocates
/// memory for its chunks.
pub(crate) fn number_of_threads(text: &str) -> Result<usize, String> {
    const MAX_THREADS: usize = 512;
    text.parse()
        .ok()
        .filter(|&number| number <= MAX_THREADS)
        .ok_or_else(|| format!("expected a number up to {MAX_THREADS}"))
}

/// The options for the size of shards, of the commands that can write a model as a set of shards.
#[derive(Debug, clap::Args)]
pub(crate) struct ShardLimitArgs {
    /// Write shards with at most this many bytes of tensor data each: OUT-00001-of-00009.gguf, …
    #[arg(long, alias = "max-size", value_name = "N(K|M|G)", value_parser = byte_size, conflicts_with = "split_max_tensors", help_heading = "Shards")]
    split_max_size: Option<u64>,
    /// Write shards with at most this many tensors each
    #[arg(long, alias = "max-tensors", value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Shards")]
    split_max_tensors: Option<u64>,
}

impl ShardLimitArgs {
    /// Returns the limit for shards; `None` if one file is written.
    pub(crate) fn options(&self) -> Option<SplitOptions> {
        let bytes = self.split_max_size.map(ShardLimit::Bytes);
        bytes.or(self.split_max_tensors.map(ShardLimit::Tensors)).map(SplitOptions::new)
    }
}

/// The options of the commands that run a model: resources, architectures and computation graph.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Number of threads [default: one per core]
    #[arg(long, short = 't', value_name = "N", value_parser = number_of_threads)]
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

/// Passes [`RunArgs`] and a text to a builder of the library.
macro_rules! with_run {
    ($args:expr, $text:expr, $builder:expr) => {{
        let args: &$crate::options::RunArgs = $args;
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

/// The options for the text that a model is run over.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1000_and_1024() {
        let found = ["1234", "4.2G", "4.2GB", "4.2g", "4.5 GiB", "512Ki", "1.5T", "7B"]
            .map(|text| byte_size(text).ok());
        assert_eq!(
            found,
            [
                1234,
                4_200_000_000,
                4_200_000_000,
                4_200_000_000,
                4_831_838_208,
                524_288,
                1_500_000_000_000,
                7
            ]
            .map(Some)
        );
        for wrong in ["", "G", "4.2.1G", "-4G", "4X", "4GiG", "é", "4é", "0", "0.1"] {
            assert!(byte_size(wrong).is_err(), "{wrong}");
        }
    }
}

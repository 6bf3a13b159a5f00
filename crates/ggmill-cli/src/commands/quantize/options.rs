//! Groups of options of `ggmill quantize`: tensor types and calibrated rounding, which `ggmill convert` has
//! too, and measured sensitivities.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ggmill::inspect::FileKind;
use ggmill::{Calibration, RunText};
use ggmill_quantize::{ImportanceFilter, Override, TensorType, weight_type, weight_types};
use ggmill_run::Chunks;

use crate::console::Console;
use crate::files::kind_of_file;
use crate::options::byte_size;

/// The options for the types of tensors and the importance matrix, shared by `quantize` and `convert`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TypeArgs {
    /// An importance matrix from llama-imatrix, GGUF or .dat
    #[arg(long, value_name = "FILE", help_heading = "Importance matrix")]
    pub(crate) imatrix: Option<PathBuf>,
    /// Use the imatrix only for tensors with this text in their names
    #[arg(
        long,
        value_name = "PART",
        requires = "imatrix",
        conflicts_with = "exclude_weights",
        help_heading = "Importance matrix"
    )]
    include_weights: Vec<String>,
    /// Do not use the imatrix for tensors with this text in their names
    #[arg(long, value_name = "PART", requires = "imatrix", help_heading = "Importance matrix")]
    exclude_weights: Vec<String>,
    /// Give every tensor the same type instead of a mixture
    #[arg(long, help_heading = "Types of individual tensors")]
    pub(crate) pure: bool,
    /// Do not quantize output.weight
    #[arg(long, help_heading = "Types of individual tensors")]
    pub(crate) leave_output_tensor: bool,
    /// Type of output.weight
    #[arg(long, value_name = "TYPE", value_parser = tensor_type, help_heading = "Types of individual tensors")]
    pub(crate) output_tensor_type: Option<String>,
    /// Type of the token embeddings
    #[arg(long, value_name = "TYPE", value_parser = tensor_type, help_heading = "Types of individual tensors")]
    pub(crate) token_embedding_type: Option<String>,
    /// Type for tensors whose names match a regular expression; the first match wins
    #[arg(long, value_name = "PATTERN=TYPE", value_parser = valid::<TensorType>, help_heading = "Types of individual tensors")]
    pub(crate) tensor_type: Vec<String>,
    /// A file of PATTERN=TYPE entries, separated by spaces or newlines; # begins a comment
    #[arg(long, value_name = "FILE", help_heading = "Types of individual tensors")]
    pub(crate) tensor_type_file: Option<PathBuf>,
    /// Give each tensor the type that it has in another model, a GGUF file or address, of which only the
    /// header is read. TYPE is then omitted. A file that is not GGUF is a list as of --tensor-type-file
    #[arg(long, value_name = "OTHER", conflicts_with_all = ["pure", "tensor_type", "tensor_type_file"], help_heading = "Types of individual tensors")]
    like: Option<PathBuf>,
    /// A file of PATTERN=ROLE entries, such as w2=ffn.down, for tensors with unconventional names;
    /// mixtures choose the type of a tensor by its role
    #[arg(long, value_name = "FILE", help_heading = "Types of individual tensors")]
    pub(crate) role_file: Option<PathBuf>,
    /// Set metadata; TYPE is int, float, bool or str
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = valid::<Override>)]
    pub(crate) override_kv: Vec<String>,
}

/// Checks that an argument parses as `T`, and returns its text: the library parses it again.
fn valid<T: FromStr>(text: &str) -> Result<String, String>
where
    T::Err: Display,
{
    text.parse::<T>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn tensor_type(name: &str) -> Result<String, String> {
    let all =
        || weight_types().map(|ggml_type| ggml_type.to_string()).collect::<Vec<_>>().join(", ");
    let found = weight_type(name).map(|ggml_type| ggml_type.to_string());
    found.ok_or_else(|| format!("expected a tensor type for weights: {}", all()))
}

impl TypeArgs {
    /// Returns `true` if any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        self.imatrix.is_some()
            || self.pure
            || self.leave_output_tensor
            || self.output_tensor_type.is_some()
            || self.token_embedding_type.is_some()
            || !self.tensor_type.is_empty()
            || self.tensor_type_file.is_some()
            || self.like.is_some()
            || self.role_file.is_some()
            || !self.override_kv.is_empty()
    }
}

/// Passes [`TypeArgs`] to a builder of the library: those of `quantize` and `convert` have the same
/// methods.
macro_rules! with_types {
    ($args:expr, $builder:expr) => {{
        let args: &$crate::commands::quantize::TypeArgs = $args;
        let mut builder = $builder.pure(args.pure).leave_output_tensor(args.leave_output_tensor);
        if let Some(path) = &args.imatrix {
            builder = builder.imatrix(path)?.imatrix_filter(args.filter());
        }
        for rule in &args.tensor_type {
            builder = builder.tensor_type(rule)?;
        }
        if let Some(path) = args.list() {
            builder = builder.tensor_types(path)?;
        }
        if let Some(path) = args.model() {
            builder = builder.like(&$crate::files::open_header(path)?)?;
        }
        if let Some(name) = &args.output_tensor_type {
            builder = builder.output_tensor_type(name)?;
        }
        if let Some(name) = &args.token_embedding_type {
            builder = builder.token_embedding_type(name)?;
        }
        for text in &args.override_kv {
            builder = builder.override_key(text)?;
        }
        if let Some(path) = &args.role_file {
            builder = builder.roles(path)?;
        }
        builder
    }};
}
pub(crate) use with_types;

impl TypeArgs {
    /// Returns the model whose types are taken.
    pub(crate) fn model(&self) -> Option<&Path> {
        self.like.as_deref().filter(|path| is_model(path))
    }

    /// Returns the list of types.
    pub(crate) fn list(&self) -> Option<&Path> {
        let listed = self.like.as_deref().filter(|path| !is_model(path));
        listed.or(self.tensor_type_file.as_deref())
    }

    pub(crate) fn filter(&self) -> ImportanceFilter {
        match (&*self.include_weights, &*self.exclude_weights) {
            ([], []) => ImportanceFilter::All,
            ([], parts) => ImportanceFilter::Exclude(parts.to_vec()),
            (parts, _) => ImportanceFilter::Include(parts.to_vec()),
        }
    }
}

/// Returns `false` for a file that is not GGUF.
fn is_model(path: &Path) -> bool {
    !path.is_file() || kind_of_file(path) == Some(FileKind::Gguf)
}

/// The options for calibrated rounding, shared by `quantize` and `convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// Round matrices by what they compute on this text instead of weight by weight: less is lost at the
    /// same types and size. The last eighth of the text is held out: it decides whether a matrix is better
    /// weight by weight, and tests the result. `auto` is a built-in text (./auto is a file); - is standard
    /// input. Not read with --dry-run
    #[arg(long, value_name = "TEXT", group = "calibration", help_heading = "Calibrated rounding")]
    calibrate: Option<PathBuf>,
    /// Token IDs to calibrate with instead of a text, as a JSON array; - is standard input
    #[arg(long, value_name = "FILE", group = "calibration", help_heading = "Calibrated rounding")]
    calibrate_tokens: Option<PathBuf>,
    /// Number of tokens per chunk of the text
    #[arg(long, value_name = "N", default_value_t = Chunks::CONTEXT, requires = "calibration", help_heading = "Calibrated rounding")]
    calibrate_ctx: usize,
    /// Use at most this number of chunks, at least 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..), requires = "calibration", help_heading = "Calibrated rounding")]
    calibrate_chunks: Option<u32>,
    /// Memory for intermediate results; all chunks are run at once, in the model and in a rounded copy
    #[arg(long, value_name = "SIZE", value_parser = byte_size, default_value = "4GiB", requires = "calibration", help_heading = "Calibrated rounding")]
    calibrate_memory: u64,
}

impl CalibrateArgs {
    /// The option for token IDs instead of a text.
    pub(crate) const TOKENS: &'static str = "--calibrate-tokens";

    /// Says that a dry run does not read the text.
    pub(crate) fn tell_dry_run(&self, console: Console) {
        if self.text().is_some() {
            console.note(format_args!(
                "the text to calibrate with is not read in a dry run; types and sizes do not depend on it"
            ));
        }
    }

    /// Returns the text to calibrate with, and the limit of memory.
    pub(crate) fn text(&self) -> Option<(RunText, u64)> {
        let text = self.calibrate.as_ref().map(|path| match path.as_os_str() {
            name if name == "auto" => RunText::built_in(),
            _ => RunText::file(path),
        });
        let text = text.or_else(|| self.calibrate_tokens.as_ref().map(RunText::token_file))?;
        let text = text
            .context(self.calibrate_ctx)
            .chunks(self.calibrate_chunks.map(|chunks| chunks as usize));
        Some((text, self.calibrate_memory))
    }
}

/// The options for choosing types by measured sensitivities: the effect that quantizing each tensor
/// has on the output of the model, instead of the error of the weights.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MeasureArgs {
    /// Choose by the effect on the output of the model: quantize one tensor at a time and measure the
    /// KL divergence on this text. Without --imatrix, the importance matrix is measured too. Every
    /// second chunk is used for that; the others test the result. - is standard input
    #[arg(
        long,
        value_name = "TEXT",
        group = "measured_text",
        help_heading = "Measured sensitivities"
    )]
    measure: Option<PathBuf>,
    /// Token IDs to measure with instead of a text, as a JSON array; - is standard input
    #[arg(
        long,
        value_name = "IDS.json",
        group = "measured_text",
        help_heading = "Measured sensitivities"
    )]
    measure_tokens: Option<PathBuf>,
    /// Use the sensitivities in a plan that was written with --measure, --dry-run and --json
    #[arg(
        long,
        value_name = "PLAN",
        conflicts_with = "measured_text",
        help_heading = "Measured sensitivities"
    )]
    sensitivities: Option<PathBuf>,
    /// Quantize without an importance matrix
    #[arg(
        long,
        requires = "measured_text",
        conflicts_with = "imatrix",
        help_heading = "Measured sensitivities"
    )]
    no_imatrix: bool,
    /// Number of tokens per chunk
    #[arg(long, value_name = "N", default_value_t = Chunks::CONTEXT, requires = "measured_text", help_heading = "Measured sensitivities")]
    ctx: usize,
    /// Use at most N chunks, from the beginning of the text; at least 2
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(2..),
        requires = "measured_text",
        help_heading = "Measured sensitivities"
    )]
    chunks: u32,
    /// Memory for intermediate results; it limits how many chunks are computed at once
    #[arg(long, value_name = "SIZE", value_parser = byte_size, default_value = "2GiB", requires = "measured_text", help_heading = "Measured sensitivities")]
    memory: u64,
}

impl MeasureArgs {
    /// Returns the name of the option that selects measured sensitivities, if one was used.
    pub(super) fn option(&self) -> Option<&'static str> {
        let options = [
            (&self.measure, "--measure"),
            (&self.measure_tokens, "--measure-tokens"),
            (&self.sensitivities, "--sensitivities"),
        ];
        options.into_iter().find_map(|(path, option)| path.as_ref().map(|_| option))
    }

    /// Returns the option for token IDs instead of the text that is read first.
    pub(super) fn token_option(&self) -> &'static str {
        if self.measure.is_some() { "--measure-tokens" } else { CalibrateArgs::TOKENS }
    }

    /// Returns the measurement to make; `None` without a text.
    pub(super) fn calibration(&self) -> Option<Calibration> {
        let text = self.measure.as_ref().map(RunText::file);
        let text = text.or_else(|| self.measure_tokens.as_ref().map(RunText::token_file))?;
        let text = text.context(self.ctx).chunks(Some(self.chunks as usize));
        Some(Calibration::new(text).memory(self.memory).without_importance(self.no_imatrix))
    }

    /// Returns the plan whose sensitivities are used.
    pub(super) fn plan(&self) -> Option<&PathBuf> {
        self.sensitivities.as_ref()
    }
}

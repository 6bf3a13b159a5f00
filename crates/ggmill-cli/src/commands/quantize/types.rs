//! The options that decide types, shared by `quantize` and `convert`.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use ggmill_quantize::{ImportanceFilter, Override, TensorType, weight_type, weight_types};

/// Which tensor gets which type, and how much each column matters.
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
    /// A file of PATTERN=TYPE entries, separated by spaces or newlines
    #[arg(long, value_name = "FILE", help_heading = "Types of individual tensors")]
    pub(crate) tensor_type_file: Option<PathBuf>,
    /// A file of PATTERN=ROLE entries, such as w2=ffn.down, for tensors with unconventional names;
    /// mixtures choose the type of a tensor by its role
    #[arg(long, value_name = "FILE", help_heading = "Types of individual tensors")]
    pub(crate) role_file: Option<PathBuf>,
    /// Set metadata; TYPE is int, float, bool or str
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = valid::<Override>)]
    pub(crate) override_kv: Vec<String>,
}

/// Parses an argument, and keeps its text: the library parses it again.
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
            || self.role_file.is_some()
            || !self.override_kv.is_empty()
    }
}

/// Passes the arguments to a builder of the library: `quantize` and `convert` have the same options.
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
        if let Some(path) = &args.tensor_type_file {
            builder = builder.tensor_types(path)?;
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
    pub(crate) fn filter(&self) -> ImportanceFilter {
        match (&*self.include_weights, &*self.exclude_weights) {
            ([], []) => ImportanceFilter::All,
            ([], parts) => ImportanceFilter::Exclude(parts.to_vec()),
            (parts, _) => ImportanceFilter::Include(parts.to_vec()),
        }
    }
}

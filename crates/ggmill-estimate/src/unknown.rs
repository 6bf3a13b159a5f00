//! Parts that an estimate does not include.

use core::fmt;

use ggmill_core::{GgmlType, NoTensors, RawStr, Tensor};

/// Something that takes memory and is not in the estimate, because it is not known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Unknown {
    /// Caches and states: the file names no architecture that is described.
    Architecture(String),
    /// Caches and states: the description of the architecture does not say what it keeps.
    Memory(String),
    /// Caches and states: the metadata lack what the description goes by.
    Metadata(String),
    /// The weights of a tensor, whose type has no known layout.
    Weights {
        /// The name of the tensor.
        tensor: String,
        /// Its type.
        ggml_type: GgmlType,
    },
    /// All weights: the file has no tensors.
    NoTensors(NoTensors),
    /// Compute buffers, and why.
    Compute(String),
    /// What some kinds of GPU need beyond compute buffers, which depends on their programs.
    Backend(&'static str),
}

impl Unknown {
    #[cold]
    pub(crate) fn of_weights(tensor: &Tensor<'_>) -> Self {
        Self::Weights { tensor: tensor.name().to_string(), ggml_type: tensor.ggml_type() }
    }

    /// What a sum lacks by it, such as `compute`: nothing where all of what an estimate has of the part
    /// is known, as with the needs of some backends.
    pub fn lacking(&self) -> Option<&'static str> {
        match self {
            Self::Weights { .. } => Some("some weights"),
            Self::NoTensors(_) => Some("weights"),
            Self::Architecture(_) | Self::Memory(_) | Self::Metadata(_) => Some("caches"),
            Self::Compute(_) => Some("compute"),
            Self::Backend(_) => None,
        }
    }

    /// The part that is not included: `weights`, `context`, `compute` or `backend`.
    pub fn part(&self) -> &'static str {
        match self {
            Self::Architecture(_) | Self::Memory(_) | Self::Metadata(_) => "context",
            Self::Weights { .. } | Self::NoTensors(_) => "weights",
            Self::Compute(_) => "compute",
            Self::Backend(_) => "backend",
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: &str| format!("{:?}", RawStr::from(name));
        match self {
            Self::Architecture(architecture) if architecture.is_empty() => {
                f.write_str("caches: the file does not specify an architecture")
            }
            Self::Architecture(architecture) => {
                write!(f, "caches: there is no description of architecture {}", name(architecture))
            }
            Self::Memory(architecture) => write!(
                f,
                "caches: the description of architecture {} has no [memory] section",
                name(architecture)
            ),
            Self::Metadata(error) => write!(f, "caches: {error}"),
            Self::Weights { tensor, ggml_type } => write!(
                f,
                "weights of tensor {}: the layout of {ggml_type} is unknown",
                name(tensor)
            ),
            Self::NoTensors(found) => write!(f, "weights: {found}"),
            Self::Compute(why) => write!(f, "compute buffers: {why}"),
            Self::Backend(what) => f.write_str(what),
        }
    }
}

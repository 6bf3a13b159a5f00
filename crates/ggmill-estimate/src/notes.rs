//! Notes about an estimate, and the parts that it does not include.

use core::fmt;

use ggmill_core::{ByteSize, GgmlType, NoTensors, RawStr, Tensor};

use crate::options::{Options, device_name};

/// A remark about the options that the numbers of an estimate do not show.
///
/// ```
/// # let mut metadata = ggmill_core::MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # metadata.set("llama.context_length", 1024u32);
/// # let file = ggmill_core::Builder::new().metadata(metadata).plan()?.header().to_vec();
/// use ggmill_estimate::{Options, estimate};
/// let model = ggmill_core::Model::open(file)?;
/// let mut options = Options::default();
/// options.context = Some(2000);
/// let notes = estimate(&model, None, &options)?.notes;
/// assert_eq!(notes.len(), 2);
/// assert!(notes[1].to_string().contains("2000 tokens is rounded up to 2048"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Note {
    /// The context of a sequence exceeds the one that the model was trained with.
    BeyondTraining {
        /// Tokens of one sequence.
        context: u64,
        /// Tokens that the model was trained with.
        trained: u64,
    },
    /// The context was rounded up to whole cells.
    RoundedUp {
        /// The requested number of tokens.
        context: u64,
        /// The number of tokens that is allocated.
        allocated: u64,
    },
    /// A pattern matches no tensor.
    MatchesNothing(String),
    /// The number of devices follows from the patterns, which name this many; shares are equal.
    Devices(usize),
    /// Shares of devices were specified, but nothing is on devices.
    NothingOnDevices,
    /// All layers fit with the context that the model was trained with; longer ones were not tried.
    FitsAll {
        /// Tokens that the model was trained with.
        trained: u64,
    },
    /// The device that prevents more layers.
    NextLayer {
        /// The smallest number of layers that does not fit.
        layers: u64,
        /// The number of the device, from 1.
        device: usize,
        /// The bytes that the device would need.
        needed: u64,
        /// The bytes that the device has.
        size: u64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondTraining { context, trained } => write!(
                f,
                "a context of {context} tokens exceeds the {trained} tokens that the model was \
                 trained with"
            ),
            Self::RoundedUp { context, allocated } => {
                let tokens = if *context == 1 { "token" } else { "tokens" };
                write!(
                    f,
                    "a context of {context} {tokens} is rounded up to {allocated}, as llama.cpp does"
                )
            }
            Self::MatchesNothing(pattern) => {
                write!(f, "pattern {:?} matches no tensor", RawStr::from(&**pattern))
            }
            Self::Devices(devices) => write!(
                f,
                "{} is named, so the estimate is for {devices} GPUs that share layers equally",
                device_name(*devices)
            ),
            Self::FitsAll { trained } => write!(
                f,
                "all layers fit with a context of {trained} tokens, with which the model was \
                 trained; longer ones were not tried"
            ),
            Self::NothingOnDevices => f.write_str(
                "the model is on the host alone: no layers are on GPUs, so that their shares have no \
                 effect",
            ),
            Self::NextLayer { layers, device, needed, size } => {
                let [needed, size] = ByteSize::both(*needed, *size);
                let layers =
                    if *layers == 1 { "1 layer".to_owned() } else { format!("{layers} layers") };
                write!(
                    f,
                    "{layers} would need {needed} on {}, which has {size} available",
                    device_name(*device)
                )
            }
        }
    }
}

/// Returns the notes about the requested context, the patterns and the devices.
pub(crate) fn notes(options: &Options, allocated: Option<u64>, trained: Option<u64>) -> Vec<Note> {
    let mut notes = Vec::new();
    if let (Some(context), Some(allocated)) = (options.context, allocated) {
        let sequences = if options.unified { 1 } else { options.sequences.max(1) };
        let of_sequence = context.div_ceil(sequences);
        let trained = trained.filter(|&trained| trained < of_sequence);
        notes.extend(trained.map(|trained| Note::BeyondTraining { context: of_sequence, trained }));
        notes.extend((allocated > context).then_some(Note::RoundedUp { context, allocated }));
    }
    let placement = &options.placement;
    let unmatched = placement.patterns.iter().filter(|pattern| !pattern.matches);
    notes.extend(unmatched.map(|unmatched| Note::MatchesNothing(unmatched.pattern.clone())));
    let devices = placement.shares.len();
    let is_idle = placement.layers == 0 && placement.overrides.values().all(|&device| device == 0);
    let has_shares = devices > 0 && !placement.has_default_shares();
    notes.extend((has_shares && is_idle).then_some(Note::NothingOnDevices));
    notes.extend((placement.has_default_shares() && devices > 1).then_some(Note::Devices(devices)));
    notes
}

/// A part of the memory that is not known and therefore not in the estimate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Unknown {
    /// Caches and states: there is no description of the architecture.
    Architecture(String),
    /// Caches and states: the description of the architecture does not describe them.
    Memory(String),
    /// Caches and states: the metadata lacks a value that the description needs.
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
    /// Additional buffers of some GPU backends.
    Backend(&'static str),
}

impl Unknown {
    #[cold]
    pub(crate) fn of_weights(tensor: &Tensor<'_>) -> Self {
        Self::Weights { tensor: tensor.name().to_string(), ggml_type: tensor.ggml_type() }
    }

    /// Returns what the total lacks, such as `compute`; `None` for [`Backend`](Self::Backend), which is
    /// additional to the parts of an estimate.
    pub fn lacking(&self) -> Option<&'static str> {
        match self {
            Self::Weights { .. } => Some("some weights"),
            Self::NoTensors(_) => Some("weights"),
            Self::Architecture(_) | Self::Memory(_) | Self::Metadata(_) => Some("caches"),
            Self::Compute(_) => Some("compute"),
            Self::Backend(_) => None,
        }
    }

    /// Returns the part that is not included: `weights`, `context`, `compute` or `backend`.
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

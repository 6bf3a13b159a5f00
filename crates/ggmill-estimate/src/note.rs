//! What is worth knowing about an estimate.

use core::fmt;

use ggmill_core::{ByteSize, RawStr};

use crate::device::device_name;
use crate::options::Options;

/// Something about what was asked for, that the numbers of an estimate do not show.
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
    /// A sequence can have more tokens than the model was trained with.
    BeyondTraining {
        /// Tokens of one sequence.
        context: u64,
        /// Tokens that the model was trained with.
        trained: u64,
    },
    /// The caches have room for more tokens than were asked for.
    RoundedUp {
        /// Tokens that were asked for.
        context: u64,
        /// Tokens that there is room for.
        allocated: u64,
    },
    /// A pattern matches the name of no tensor.
    MatchesNothing(String),
    /// There are so many devices because patterns name them, and they have equal shares.
    Devices(usize),
    /// There are devices, and nothing is on them.
    NothingOnDevices,
    /// All layers fit with the context that the model was trained with, so that no longer one was
    /// tried.
    FitsAll {
        /// Tokens that the model was trained with.
        trained: u64,
    },
    /// Why no more layers fit.
    NextLayer {
        /// The number of layers that was too many.
        layers: u64,
        /// The number of the device, from 1.
        device: usize,
        /// The bytes that it would need.
        needed: u64,
        /// The bytes that there are.
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

/// The notes about the context that the options ask for, and about their patterns.
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

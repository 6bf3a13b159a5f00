//! What is worth knowing about the context of an estimate.

use core::fmt;

use crate::estimate::Estimate;
use crate::options::Options;

/// Something about a context that was asked for, and that an estimate does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondTraining { context, trained } => write!(
                f,
                "a context of {context} tokens exceeds the {trained} tokens that the model was \
                 trained with"
            ),
            Self::RoundedUp { context, allocated } => write!(
                f,
                "a context of {context} tokens is rounded up to {allocated}, as llama.cpp does"
            ),
        }
    }
}

impl Estimate {
    /// What is worth knowing about the context that the options ask for: nothing where they ask for
    /// none, or where nothing is known of the caches.
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
    /// let notes = estimate(&model, None, &options)?.notes(&options);
    /// assert_eq!(notes.len(), 2);
    /// assert!(notes[1].to_string().contains("2000 tokens is rounded up to 2048"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn notes(&self, options: &Options) -> Vec<Note> {
        let (Some(context), Some(allocated)) = (options.context, self.context_length()) else {
            return Vec::new();
        };
        let sequences = if options.unified { 1 } else { options.sequences.max(1) };
        let of_sequence = context.div_ceil(sequences);
        let beyond = self.trained_context.filter(|&trained| trained < of_sequence);
        let beyond = beyond.map(|trained| Note::BeyondTraining { context: of_sequence, trained });
        let rounded = (allocated > context).then_some(Note::RoundedUp { context, allocated });
        beyond.into_iter().chain(rounded).collect()
    }
}

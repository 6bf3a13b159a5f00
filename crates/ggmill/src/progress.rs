//! The options that every long call has: threads, progress, notes.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;

use ggmill_pipeline::RunOptions;

use crate::{Note, Result};

/// A phase of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Reading samples of the tensors, to choose types for a size. Counts bytes.
    Sampling,
    /// Measuring the importance matrix. Counts chunks of text.
    Importance,
    /// Measuring the sensitivities of tensors. Counts tensors.
    Sensitivities,
    /// Rounding the matrices on a text. Counts tensors.
    Rounding,
    /// Writing the output. Counts bytes of tensor data.
    Writing,
    /// Reading the input. Counts bytes of tensor data.
    Reading,
    /// Measuring the result. Counts chunks of text.
    Testing,
    /// Measuring models. Counts chunks of text.
    Measuring,
    /// Reading many files. Counts files.
    Indexing,
}

impl Stage {
    /// Returns the unit: `bytes`, `chunks`, `tensors` or `files`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Sampling | Self::Writing | Self::Reading => "bytes",
            Self::Importance | Self::Testing | Self::Measuring => "chunks",
            Self::Sensitivities | Self::Rounding => "tensors",
            Self::Indexing => "files",
        }
    }
}

/// Progress of a call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The phase.
    pub stage: Stage,
    /// The number of units that are done: see [`Stage::unit`].
    pub done: u64,
    /// The total number of units.
    pub total: u64,
    /// The current tensor or file; empty if chunks are counted.
    pub tensor: &'a str,
    /// The number of the current tensor, from 1, and the number of all tensors; only when a model is
    /// written.
    pub number: Option<(usize, usize)>,
}

/// A callback for progress: [`ControlFlow::Break`] cancels the call.
pub(crate) type OnProgress<'a> = Box<dyn FnMut(&Progress<'_>) -> ControlFlow<()> + Send + 'a>;

/// A callback for notes.
pub(crate) type OnNote<'a> = Box<dyn FnMut(&Note) + Send + 'a>;

/// The options of one call.
#[derive(Default)]
pub(crate) struct Call<'a> {
    pub(crate) threads: Option<usize>,
    pub(crate) overwrite: bool,
    pub(crate) allow_zeros: bool,
    pub(crate) on_progress: Option<OnProgress<'a>>,
    pub(crate) on_note: Option<OnNote<'a>>,
    pub(crate) notes: Vec<Note>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("threads", &self.threads)
            .field("overwrite", &self.overwrite)
            .field("allow_zeros", &self.allow_zeros)
            .finish_non_exhaustive()
    }
}

impl Call<'_> {
    pub(crate) fn run_options(&self) -> RunOptions {
        let mut options = RunOptions::default();
        options.threads = self.threads;
        options.allow_zeros = self.allow_zeros;
        options
    }

    /// Passes a note to the callback, or keeps it for the result if there is none.
    pub(crate) fn note(&mut self, note: Note) {
        match &mut self.on_note {
            Some(on_note) => on_note(&note),
            None => self.notes.push(note),
        }
    }

    /// Reports progress of work that counts units other than bytes. Fails if the callback cancels the
    /// call.
    pub(crate) fn report(
        &mut self,
        stage: Stage,
        done: usize,
        total: usize,
        tensor: &str,
    ) -> Result<()> {
        let (done, total) = (done as u64, total as u64);
        let progress = Progress { stage, done, total, tensor, number: None };
        match self.on_progress.as_mut().map(|report| report(&progress)) {
            Some(ControlFlow::Break(())) => Err(crate::Error::cancelled()),
            _ => Ok(()),
        }
    }

    /// Runs `work` with a callback that reports bytes.
    pub(crate) fn with_report<R>(
        &mut self,
        stage: Stage,
        work: impl FnOnce(&RunOptions, &mut ggmill_pipeline::Report<'_>) -> R,
    ) -> R {
        self.with_numbers(stage, &HashMap::new(), work)
    }

    /// Runs `work` with a callback that reports bytes. `numbers` has the number of each tensor.
    pub(crate) fn with_numbers<R>(
        &mut self,
        stage: Stage,
        numbers: &HashMap<String, usize>,
        work: impl FnOnce(&RunOptions, &mut ggmill_pipeline::Report<'_>) -> R,
    ) -> R {
        let options = self.run_options();
        let on_progress = &mut self.on_progress;
        work(&options, &mut |now| {
            let (done, total, tensor) = (now.written, now.total, now.tensor);
            let number = numbers.get(tensor).map(|&number| (number, numbers.len()));
            let progress = Progress { stage, done, total, tensor, number };
            on_progress.as_mut().map_or(ControlFlow::Continue(()), |report| report(&progress))
        })
    }
}

/// Generates the methods for the options that every builder has. The builder has a field `call` of
/// type [`Call`] and a lifetime `'a`.
macro_rules! call_options {
    () => {
        /// Sets the number of threads; 0, and the default, is one per core. The threads belong to this
        /// call; no global thread pool is changed.
        #[must_use]
        pub fn threads(mut self, threads: usize) -> Self {
            self.call.threads = Some(threads);
            self
        }

        /// Calls `report` regularly, from any thread. If it returns
        /// [`ControlFlow::Break`](std::ops::ControlFlow::Break), the call ends with an error for which
        /// [`is_cancelled`](crate::Error::is_cancelled) is true, and leaves no output.
        #[must_use]
        pub fn on_progress(
            mut self,
            report: impl FnMut(&crate::Progress<'_>) -> std::ops::ControlFlow<()> + Send + 'a,
        ) -> Self {
            self.call.on_progress = Some(Box::new(report));
            self
        }

        /// Calls `note` with each note that arises before the result is complete. These notes are not
        /// repeated in the result.
        #[must_use]
        pub fn on_note(mut self, note: impl FnMut(&crate::Note) + Send + 'a) -> Self {
            self.call.on_note = Some(Box::new(note));
            self
        }
    };
    (overwrite) => {
        crate::progress::call_options!();

        /// Replaces an output that exists. Without it, an existing output is an error.
        #[must_use]
        pub fn overwrite(mut self, overwrite: bool) -> Self {
            self.call.overwrite = overwrite;
            self
        }
    };
    (overwrite, encoding) => {
        crate::progress::call_options!(overwrite);
        crate::progress::call_options!(@zeros);
    };
    (encoding) => {
        crate::progress::call_options!();
        crate::progress::call_options!(@zeros);
    };
    (@zeros) => {
        /// Writes tensors whose values all become zero in their types, with a note. Without it, such a
        /// tensor is an error.
        #[must_use]
        pub fn allow_zeros(mut self, allow: bool) -> Self {
            self.call.allow_zeros = allow;
            self
        }
    };
}
pub(crate) use call_options;

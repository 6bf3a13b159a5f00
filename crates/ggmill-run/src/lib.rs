#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "sizes of tensors in memory fit into words, and graphs compute in single precision"
)]

mod activations;
mod attention;
mod elementwise;
mod error;
pub mod html;
mod input;
pub mod json;
mod linear_inputs;
mod matrix;
mod measure;
mod probe;
mod program;
mod run;
mod sequence;
mod weights;

pub use activations::{Activations, Matrices, TensorActivations, activations};
pub use error::{Error, ErrorKind, Result};
pub use input::Source;
pub use linear_inputs::{LinearInputs, Replacement, linear_inputs};
pub use measure::{
    Chunks, Comparison, Distribution, Estimate, MeasureProgress, Measurement, ModelScores, Scores,
    Similarity, Trial, TrialOutcome, measure, measure_together, scores_together, trials,
};
pub use probe::{Difference, Probe, RecordedLogits, probe};
pub use program::{GraphSource, Program};
pub use run::{Options, Runner, States};

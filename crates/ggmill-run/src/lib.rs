#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "sizes of tensors in memory fit into words, and graphs compute in single precision"
)]

mod activations;
mod arena;
mod attention;
mod biases;
mod collect;
mod elementwise;
mod error;
mod hashes;
pub mod html;
pub mod json;
mod limits;
mod logits;
mod matrix;
mod measure;
mod pick;
mod pool;
mod probe;
mod program;
mod rope;
mod rounded;
mod run;
mod sequence;
mod sizes;
mod source;
mod variant;
mod weights;

pub use activations::{Activations, Matrices, TensorActivations};
pub use collect::activations;
pub use error::{Error, ErrorKind, Result};
pub use measure::{
    Chunks, Comparison, Distribution, Estimate, Measured, Measurement, ModelScores, Scores,
    Similarity, Trial, Tried, measure, measure_together, scores_together, trials,
};
pub use probe::{Difference, Probe, Recorded, probe};
pub use program::{GraphSource, Program};
pub use run::{Options, Runner, States};
pub use source::Source;

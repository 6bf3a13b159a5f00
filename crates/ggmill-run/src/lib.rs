#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "sizes of tensors in memory fit into words, and graphs compute in single precision"
)]

mod arena;
mod attention;
mod elementwise;
mod error;
pub mod json;
mod matrix;
mod measure;
mod program;
mod rope;
mod run;
mod weights;

pub use error::{Error, ErrorKind, Result};
pub use measure::{Chunks, Comparison, Distribution, Estimate, Measured, Measurement, measure};
pub use program::Program;
pub use run::{Options, Runner, States};

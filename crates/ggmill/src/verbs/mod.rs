//! The verbs: functions that do one thing with models, each with its builder.

mod quantize;
mod running;
mod types;

pub use quantize::{Compared, Measure, Quantize, QuantizePlan, Quantized, quantize};
pub use running::{RunText, find_program, no_graph, tokenizer};

//! The verbs: functions that do one thing with models, each with its builder.

mod convert;
mod quantize;
mod restore;
mod running;
mod types;

pub use convert::{Convert, ConvertPlan, ConvertSource, Converted, convert};
pub use quantize::{Compared, Measure, Quantize, QuantizePlan, Quantized, quantize};
pub use restore::{Restore, RestorePlan, Restored, restore};
pub use running::{RunText, find_program, no_graph, read_recorded, tokenizer};

//! The verbs: functions that do one thing with models, each with its builder.

mod check;
mod convert;
mod diff;
mod edit;
mod extract;
mod graft;
mod hash;
mod lora;
mod quantize;
mod rename;
mod reshape;
mod restore;
mod running;
mod types;

pub use check::{Check, Checked, FileCheck, Proposal, check};
pub use convert::{Convert, ConvertPlan, ConvertSource, Converted, convert};
pub use diff::{ModelDiff, diff};
pub use edit::{EditSummary, FileEdit, PlannedEdit, edit, recover};
pub use extract::{Extract, ExtractFormat, ExtractPlan, Extracted, extract};
pub use graft::{Graft, Renaming, graft};
pub use hash::{HashFile, HashList, HashModel, HashReport, hash, hash_file};
pub use lora::{MergeLora, merge_lora};
pub use quantize::{Compared, Measure, Quantize, QuantizePlan, Quantized, quantize};
pub use rename::{Rename, rename, suggested_name};
pub use reshape::{Merge, MergePlan, Merged, Repack, Split, merge, repack, split};
pub use restore::{Restore, RestorePlan, Restored, restore};
pub use running::{RunText, find_program, no_graph, read_recorded, tokenizer};

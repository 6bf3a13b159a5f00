//! The verbs: functions that do one thing with models, each with its builder.

#[cfg(feature = "files")]
mod convert;
mod estimate;
#[cfg(feature = "files")]
mod imatrix;
#[cfg(feature = "files")]
mod index;
#[cfg(feature = "files")]
mod list;
#[cfg(feature = "files")]
mod measure;
#[cfg(feature = "files")]
mod quantize;
mod render;
#[cfg(feature = "files")]
mod restore;
#[cfg(feature = "files")]
mod running;
#[cfg(feature = "files")]
mod tokenize;
#[cfg(feature = "files")]
mod types;

#[cfg(feature = "files")]
pub use convert::{Convert, ConvertPlan, ConvertSource, Converted, convert};
pub use estimate::{Estimate, Estimated, estimate};
#[cfg(feature = "files")]
pub use imatrix::{MakeImatrix, MergeImatrices, WrittenImatrix, imatrix, merge_imatrices};
#[cfg(feature = "files")]
pub use index::{Index, index};
#[cfg(feature = "files")]
pub use list::{ListedModel, Listing};
#[cfg(feature = "files")]
pub use measure::{Measure, measure, merge_scores};
#[cfg(feature = "files")]
pub use quantize::{Calibration, Compared, Quantize, QuantizePlan, Quantized, quantize};
pub use render::{Render, TemplateDifference, Templates, render};
#[cfg(feature = "files")]
pub use restore::{Restore, RestorePlan, Restored, restore};
#[cfg(feature = "files")]
pub use running::{RunText, find_program, no_graph, probe, read_recorded};
#[cfg(feature = "files")]
pub use tokenize::{TokenCount, count_tokens};

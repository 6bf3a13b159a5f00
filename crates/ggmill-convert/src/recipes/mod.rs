//! The recipes: one file for each thing that can be done to a model.

mod convert;
mod edit;
mod graft;
mod legacy;
mod merge;
mod quantize;
mod repack;
mod split;

pub use convert::{ConvertOptions, convert};
pub use edit::{Edit, EditPlan, Edited, Editor, FILLER_KEY, Given, Ground, KeyChange, KeyType, KeyTypeError, Way, edit_metadata};
pub use graft::Graft;
pub use legacy::{LegacyOptions, convert_legacy};
pub(crate) use merge::whole;
pub use merge::{merge, verify};
pub use quantize::{
    Fit, Goal, Importance, ImportanceFilter, Override, QuantizeOptions, RoleRule, Target, TensorType, TypePlan, fit, quantize, quantize_shards, weight_type,
    weight_types,
};
pub use repack::{RepackOptions, repack};
pub use split::{ShardLimit, SplitOptions, split};

/// The version of the quantization format that this and the reference write (`GGML_QNT_VERSION`).
const QUANTIZATION_VERSION: u32 = 2;

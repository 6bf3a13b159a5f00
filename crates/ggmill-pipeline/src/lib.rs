#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod buffers;
mod document;
mod error;
mod expression;
pub mod formats;
mod matching;
mod planned_file;
mod recipe;
mod run;
mod source;
mod split;

pub use buffers::zeroed;
pub use document::{
    PlanDocumentError, plan_document, planned_sensitivities, planned_types, plans_document,
};
pub use error::{Error, ErrorKind, Result};
pub use expression::{
    AddPlaces, Bilinear, CodedBlocks, Decode, Encoding, Expression, Fp8, Fp8Blocks, Inputs, Mxfp4,
    Narrow, Nvfp4, PackedIntegers, TernaryRows, error_bound, matrices,
};
pub use matching::{Difference, Match, ToMatch, WorstBlock, match_tensors, usual_error};
pub use planned_file::PlannedFile;
pub use recipe::{Form, Plan, Recipe, RecipeTensor, Sensitivity};
pub use run::{Progress, Report, RunOptions, Workers, run, run_range};
pub use source::{
    Checkpoint, Derived, FileRange, GgufCheckpoint, Joined, MemorySource, Pretrained, SideFiles,
    SourceTensor, WithConfig,
};
pub use split::{SPLIT_KEYS, ShardFiles, ShardLimit, SplitOptions, split};

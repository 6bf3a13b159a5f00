#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod buffers;
mod copy_span;
mod document;
mod error;
mod expression;
pub mod formats;
mod plan;
mod range;
mod recipe;
mod run;
mod sensitivity;
mod shard_files;
mod source;
mod split;
mod workers;

pub use buffers::zeroed;
pub use document::{
    PlanDocumentError, plan_document, planned_sensitivities, planned_types, plans_document,
};
pub use error::{Error, ErrorKind, Result};
pub use expression::{
    AddPlaces, Bilinear, CodedBlocks, Decode, Encoding, Expression, Fp8, Fp8Blocks, Inputs, Mxfp4,
    Narrow, Nvfp4, PackedIntegers, TernaryRows, matrices,
};
pub use plan::Plan;
pub use range::run_range;
pub use recipe::{Form, Recipe, RecipeTensor};
pub use run::{Progress, Report, RunOptions, run};
pub use sensitivity::Sensitivity;
pub use shard_files::ShardFiles;
pub use source::{
    Checkpoint, Derived, FileRange, GgufCheckpoint, Joined, MemorySource, Pretrained, SideFiles,
    SourceTensor, WithConfig,
};
pub use split::{SPLIT_KEYS, ShardLimit, SplitOptions, split};
pub use workers::Workers;

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod checkpoint;
mod compare;
mod error;
mod extract;
mod general;
mod hash;
mod imatrix;
mod loss;
mod parts;
mod plan;
mod recipe;
mod recipes;
mod rows;
mod run;
mod spare;
mod untouched;

pub use checkpoint::{
    Checkpoint, FileRange, GgufCheckpoint, Joined, Legacy, LegacyContainer, LegacyFamily, Numpy, Pretrained, Safetensors, SafetensorsFile, SourceTensor,
};
pub use compare::{Comparison, NumericError, ToCompare, compare};
pub use error::{Error, ErrorKind, Result};
pub use extract::{extract_metadata, extract_npy, extract_safetensors, npy_len, safetensors_len, subset};
pub use hash::{Claims, Digest, HashKind, Hashes, Manifest, UnknownHash, hash};
pub use imatrix::{Imatrix, ImatrixEntry, ImatrixForm};
pub use loss::{TensorLoss, loss};
pub use parts::Parts;
pub use plan::Plan;
pub use recipe::Recipe;
pub use recipes::Graft;
pub use recipes::{ConvertOptions, convert};
pub use recipes::{Edit, EditPlan, Edited, Editor, FILLER_KEY, Given, Ground, KeyChange, KeyType, KeyTypeError, Way, edit_metadata};
pub use recipes::{
    Fit, Goal, Importance, ImportanceFilter, Override, QuantizeOptions, RoleRule, Target, TensorType, TypePlan, fit, quantize, quantize_shards, weight_type,
    weight_types,
};
pub use recipes::{LegacyOptions, convert_legacy};
pub use recipes::{RepackOptions, ShardLimit, SplitOptions, merge, repack, split, verify};
pub use run::{Progress, run};

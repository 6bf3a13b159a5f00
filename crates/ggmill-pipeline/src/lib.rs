#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod buffers;
mod error;
mod expression;
mod plan;
mod recipe;
mod rows;
mod run;
mod source;
mod split;
mod untouched;

pub use error::{Error, ErrorKind, Result};
pub use expression::{Decode, Encoding, Expression, Fp8Blocks, Inputs, Mxfp4};
pub use plan::{Job, Plan, Work};
pub use recipe::{Content, Encoding as OldEncoding, Form, Recipe, RecipeTensor, matrices};
pub use rows::{RowMap, Step};
pub use run::{Progress, run};
pub use source::{Checkpoint, FileRange, GgufCheckpoint, Joined, MemorySource, Pretrained, SourceTensor};
pub use split::{SPLIT_KEYS, ShardLimit, SplitOptions, split};

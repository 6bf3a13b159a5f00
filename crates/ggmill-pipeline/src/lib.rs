#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod plan;
mod recipe;
mod rows;
mod run;
mod source;
mod spare;
mod split;
mod untouched;

pub use error::{Error, ErrorKind, Result};
pub use plan::{Job, Plan, Work};
pub use recipe::{Content, Encoding, Form, Recipe, RecipeTensor, matrices};
pub use rows::{RowMap, Step};
pub use run::{Progress, run};
pub use source::{Checkpoint, FileRange, GgufCheckpoint, Joined, Pretrained, SourceTensor};
pub use split::{SPLIT_KEYS, ShardLimit, SplitOptions, split};

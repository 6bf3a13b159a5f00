#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod document;
mod error;
mod plan;
mod recipe;
mod rows;
mod run;
mod source;
mod spare;
mod split;
mod untouched;

pub use document::{PlanDocumentError, plan_document, planned_types, plans_document};
pub use error::{Error, ErrorKind, Result};
pub use plan::{Job, Plan, Work};
pub use recipe::{Content, Encoding, Form, Recipe, RecipeTensor, matrices};
pub use rows::{RowMap, Step};
pub use run::{Progress, run};
pub use source::{Checkpoint, FileRange, GgufCheckpoint, Joined, Pretrained, SourceTensor};
pub use split::{SPLIT_KEYS, ShardLimit, SplitOptions, split};

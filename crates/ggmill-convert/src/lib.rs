#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod checkpoint;
mod error;
mod general;
mod plan;
mod recipe;
mod recipes;
mod rows;
mod run;

pub use checkpoint::{Checkpoint, GgufCheckpoint, Pretrained, Safetensors, SourceTensor};
pub use error::{Error, ErrorKind, Result};
pub use plan::Plan;
pub use recipe::Recipe;
pub use recipes::{ConvertOptions, Edit, EditPlan, Edited, Editor, FILLER_KEY, Given, Ground, KeyChange, KeyType, KeyTypeError, Way, convert, edit_metadata};
pub use run::{Progress, run};

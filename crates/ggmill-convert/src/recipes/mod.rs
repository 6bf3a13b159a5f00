//! The recipes: one file for each thing that can be done to a model.

mod convert;

pub use convert::{ConvertOptions, convert};

//! The recipes: one file for each thing that can be done to a model.

mod convert;
mod edit;

pub use convert::{ConvertOptions, convert};
pub use edit::{Edit, EditPlan, Edited, Editor, FILLER_KEY, Given, Ground, KeyChange, KeyType, KeyTypeError, Way, edit_metadata};

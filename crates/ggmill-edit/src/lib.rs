#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod edit;
mod graft;
mod json;
mod merge;
mod parts;
mod repack;
mod subset;

pub use edit::{Edit, EditPlan, Edited, Editor, FILLER_KEY, Given, Ground, KeyChange, KeyType, KeyTypeError, Way, edit_metadata};
pub use graft::Graft;
pub use json::extract_metadata;
pub use merge::{merge, verify};
pub use parts::Parts;
pub use repack::{RepackOptions, repack};
pub use subset::subset;

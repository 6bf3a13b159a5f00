#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod edit;
#[cfg(feature = "fix")]
mod findings;
#[cfg(feature = "fix")]
mod fix;
mod graft;
pub mod hash;
mod json;
mod lora;
mod meant;
mod merge;
mod parts;
mod repack;
mod subset;

pub use edit::{
    Destination, Edit, EditError, EditMethod, EditPlan, EditSyntaxError, EditValue, Edited, Editor,
    FILLER_KEY, KeyChange, KeyType, KeyTypeError, TypedValue, ValueError, edit_metadata,
    parse_element,
};
#[cfg(feature = "fix")]
pub use findings::{EditFindings, Misspelt, broken_templates, edit_findings, misspelled_keys};
#[cfg(feature = "fix")]
pub use fix::apply_fixes;
pub use graft::{Graft, Taken};
pub use json::{extract_metadata, value_json};
pub use lora::{LoraAdapter, LoraTarget, merge_adapters};
pub use meant::meant_pattern;
pub use merge::{merge, verify};
pub use parts::Parts;
pub use repack::{RepackOptions, repack};
pub use subset::subset;

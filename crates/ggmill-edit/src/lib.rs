#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(feature = "fix")]
mod check;
mod edit;
mod graft;
pub mod hash;
mod lora;
mod parts;
mod reshape;

#[cfg(feature = "fix")]
pub use check::{
    EditFindings, MisspelledKey, apply_fixes, broken_templates, edit_findings, misspelled_keys,
};
pub use edit::{
    Destination, Edit, EditError, EditMethod, EditPlan, EditSyntaxError, EditValue, Edited, Editor,
    FILLER_KEY, KeyChange, KeyType, KeyTypeError, TypedValue, ValueError, edit_metadata,
    extract_metadata, parse_element, value_json,
};
pub use graft::{Graft, TakenTensors};
pub use lora::{LoraAdapter, LoraTarget, merge_adapters};
pub use parts::Parts;
pub use reshape::{RepackOptions, merge, repack, similar_pattern, subset, verify};

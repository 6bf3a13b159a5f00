//! The commands, each with its arguments and what it does with them.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod convert_legacy;
pub(crate) mod convert_lora;
pub(crate) mod detokenize;
pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod explain;
pub(crate) mod extract;
pub(crate) mod get;
pub(crate) mod graft;
pub(crate) mod hash;
pub(crate) mod imatrix;
pub(crate) mod inspect;
pub(crate) mod legacy_listing;
pub(crate) mod lora;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod name;
pub(crate) mod quantize;
pub(crate) mod repack;
pub(crate) mod set_metadata;
pub(crate) mod split;
pub(crate) mod tokenize;
pub(crate) mod vocabulary;

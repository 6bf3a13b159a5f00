//! The tests of the built program.

#![allow(
    clippy::needless_for_each,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is missing"
)]

mod architectures;
mod calibrate;
mod check;
mod convert;
mod convert_back;
mod convert_bad_input;
mod convert_default;
mod convert_hostile;
mod convert_mmproj;
mod convert_sources;
mod convert_types;
mod diff;
mod dimensions;
mod documentation;
mod edit;
mod edit_guards;
mod edit_spellings;
mod encoder_decoder;
mod estimate;
mod explain;
mod failures;
mod fit;
#[cfg(target_os = "linux")]
mod full_disk;
mod get;
mod graft;
mod graph;
mod hash;
mod help;
mod imatrix;
mod index;
mod inspect;
mod json_safety;
mod killed;
mod legacy;
mod lora;
mod ls;
mod measure;
mod memory;
mod name;
mod outputs;
mod overwriting;
mod program;
mod quantize;
#[cfg(feature = "remote")]
mod remote;
mod reshape;
mod sensitivity;
mod support;
mod template;
mod text_safety;
mod tokenize;
mod underflow;
mod verify;
mod web;

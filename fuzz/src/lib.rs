//! The fuzz targets: each is a function of bytes that panics on a finding.
//!
//! `cargo xtask fuzz-seeds` writes the seeds; `cargo +nightly fuzz run --features libfuzzer parse`
//! searches guided by coverage; the `harness` binary mutates the seeds without any guidance on a stable toolchain, for
//! machines that have nothing else. `cargo xtask fuzz-smoke` runs whichever is there.

mod allocations;
mod architecture;
mod byte_pairs;
mod check;
mod config;
mod decoder_chunks;
mod dequantize;
mod file_name;
mod graph;
mod imatrix;
mod index;
mod journal;
mod legacy;
mod location;
mod manifest;
mod model_card;
mod npy;
mod packed;
mod parse;
mod program;
mod quantize;
mod request;
mod restore;
mod roundtrip;
mod safetensors;
mod scores;
mod scratch;
pub mod seeds;
mod start;
mod template;
mod tensors;
mod tokenizer;
mod torch;
mod type_plan;
mod vocabulary;
mod zeros;

pub use architecture::architecture;
pub use byte_pairs::byte_pairs;
pub use check::check;
pub use config::config;
pub use decoder_chunks::decoder_chunks;
pub use dequantize::dequantize;
pub use file_name::file_name;
pub use graph::graph;
pub use imatrix::imatrix;
pub use index::index;
pub use journal::journal;
pub use legacy::legacy;
pub use location::location;
pub use manifest::manifest;
pub use model_card::model_card;
pub use npy::npy;
pub use parse::parse;
pub use program::program;
pub use quantize::quantize;
pub use request::request;
pub use restore::restore;
pub use roundtrip::roundtrip;
pub use safetensors::{safetensors, safetensors_index};
pub use scores::scores;
pub use start::start;
pub use template::template;
pub use tokenizer::tokenizer;
pub use torch::torch;
pub use type_plan::type_plan;
pub use vocabulary::vocabulary;

/// A target, which panics if the bytes violate a guarantee.
pub type Target = fn(&[u8]);

/// Every target by the name of its binary: a parser of untrusted bytes, or a codec.
pub const TARGETS: [(&str, Target); 31] = [
    ("parse", parse),
    ("decoder_chunks", decoder_chunks),
    ("restore", restore),
    ("roundtrip", roundtrip),
    ("check", check),
    ("dequantize", dequantize),
    ("quantize", quantize),
    ("architecture", architecture),
    ("graph", graph),
    ("program", program),
    ("config", config),
    ("start", start),
    ("file_name", file_name),
    ("imatrix", imatrix),
    ("journal", journal),
    ("legacy", legacy),
    ("location", location),
    ("manifest", manifest),
    ("index", index),
    ("npy", npy),
    ("safetensors", safetensors),
    ("safetensors_index", safetensors_index),
    ("request", request),
    ("torch", torch),
    ("scores", scores),
    ("type_plan", type_plan),
    ("vocabulary", vocabulary),
    ("byte_pairs", byte_pairs),
    ("model_card", model_card),
    ("tokenizer", tokenizer),
    ("template", template),
];

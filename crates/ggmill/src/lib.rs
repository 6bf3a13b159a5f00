#![doc = include_str!("../README.md")]
//!
//! # The crates behind this one
//!
//! This crate holds no logic. The types of the format stand at its root; everything else is a module, each a crate of its own:
//!
//! | module | what lives there |
//! |---|---|
//! | root | the format: [`Gguf`], [`Metadata`], [`Tensor`], [`Builder`] (`ggmill-core`) |
//! | [`io`] | files: maps, positioned reads, shard sets, atomic writes |
//! | [`quant`] | block codecs: `dequantize`, `quantize` |
//! | [`arch`] | architectures as data |
//! | [`pipeline`] | sources, recipes, plans and the run that writes a model |
//! | [`formats`] | safetensors, npy, and the formats before GGUF |
//! | [`convert`] | checkpoints into GGUF |
//! | [`quantize`] | models of smaller types; importance matrices; losses |
//! | [`edit`] | metadata edits; shards; tensors in and out |
//! | [`hash`] | hashes, manifests, comparisons |
//! | [`inspect`] | what is in a file, as text and JSON |
#![forbid(unsafe_code)]

pub use ggmill_core::*;

pub use ggmill_arch as arch;
pub use ggmill_convert as convert;
pub use ggmill_edit as edit;
pub use ggmill_formats as formats;
pub use ggmill_hash as hash;
pub use ggmill_inspect as inspect;
pub use ggmill_io as io;
pub use ggmill_pipeline as pipeline;
pub use ggmill_quant as quant;
pub use ggmill_quantize as quantize;

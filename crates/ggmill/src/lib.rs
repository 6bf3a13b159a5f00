#![doc = include_str!("../README.md")]
//!
//! # The crates after this one
//!
//! This crate holds no logic. The types of the format are at its root; everything else is a module,
//! each a crate of its own, and each a feature:
//!
//! | module and feature | default | what lives there |
//! |---|---|---|
//! | root | always | the format: [`Gguf`], [`Metadata`], [`Tensor`], [`Model`], [`Builder`] (`ggmill-core`) |
//! | `io` | yes | files: maps, positioned reads, shard sets, atomic writes |
//! | `quant` | yes | block codecs: values of tensors, and tensors of values |
//! | `arch` | | architectures as data |
//! | `checkpoints` | yes | no module: what `arch` and `inspect` know of checkpoints |
//! | `check` | | coded rules about files, their findings and fixes |
//! | `convert` | | checkpoints into GGUF |
//! | `edit` | | metadata edits; shards; tensors in and out |
//! | `estimate` | | memory that a model takes to run |
//! | `formats` | | safetensors, npy, and the formats before GGUF |
//! | `hash` | | hashes, manifests, comparisons |
//! | `index` | | tables of what is in many files, as NDJSON and, with the feature `parquet`, as Parquet |
//! | `inspect` | | what is in a file, as text and JSON |
//! | `pipeline` | | sources, recipes, plans and the run that writes a model |
//! | `quantize` | | models of smaller types; importance matrices; losses |
//! | `remote` | | models over HTTP, on the Hugging Face Hub and in S3 |
//! | `run` | | what a model computes, to measure it |
//! | `text` | | patterns of names; JSON that is safe to print |
//! | `template` | | chat templates: conversations to text and tokens |
//! | `tokenizer` | | text to tokens and tokens to text |
//!
//! The feature `full` is all of them, without `parquet`. The default reads, lists and decodes, on the
//! thread it is called on and without a dependency beyond this family's and those for files. Without
//! any feature what is left is `ggmill-core`.
#![forbid(unsafe_code)]

pub use ggmill_core::*;

#[cfg(feature = "arch")]
pub use ggmill_arch as arch;
#[cfg(feature = "check")]
pub use ggmill_check as check;
#[cfg(feature = "convert")]
pub use ggmill_convert as convert;
#[cfg(feature = "edit")]
pub use ggmill_edit as edit;
#[cfg(feature = "hash")]
pub use ggmill_edit::hash;
#[cfg(feature = "estimate")]
pub use ggmill_estimate as estimate;
#[cfg(feature = "inspect")]
pub use ggmill_inspect as inspect;
#[cfg(feature = "index")]
pub use ggmill_inspect::index;
#[cfg(feature = "io")]
pub use ggmill_io as io;
#[cfg(feature = "pipeline")]
pub use ggmill_pipeline as pipeline;
#[cfg(feature = "formats")]
pub use ggmill_pipeline::formats;
#[cfg(feature = "quant")]
pub use ggmill_quant as quant;
#[cfg(feature = "quantize")]
pub use ggmill_quantize as quantize;
#[cfg(feature = "remote")]
pub use ggmill_remote as remote;
#[cfg(feature = "run")]
pub use ggmill_run as run;
#[cfg(feature = "template")]
pub use ggmill_template as template;
#[cfg(feature = "text")]
pub use ggmill_text as text;
#[cfg(feature = "tokenizer")]
pub use ggmill_tokenizer as tokenizer;

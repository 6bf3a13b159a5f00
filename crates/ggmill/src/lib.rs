#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * [`Model`] is an open model, with its [`Metadata`] and its [`Tensor`]s.
//! * The verbs are functions: [`quantize()`], [`convert()`], ….
//! * [`Error`] is the error of all of them. [`Note`]s are facts worth knowing about a success.
//! * The modules are the lower-level crates, for everything that the verbs do not offer. Each of these
//!   crates can also be used without this one.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `files` | yes | everything that needs an operating system: opening and writing files, converting, quantizing, editing, hashing, running |
//! | `remote` | | models over HTTP, on the Hugging Face Hub and in S3 (`files` included) |
//! | `parquet` | | indexes of many files as Parquet (`files` included) |
//! | `full` | | all of them |
//!
//! Without features the crate reads, decodes, checks, inspects, estimates, tokenizes and renders
//! models in memory or from a [`ReadAt`](core::ReadAt); it compiles for WebAssembly.
//!
//! # Structure of a verb
//!
//! A verb is a function `verb(input)? -> Verb<'a>` that opens or takes its input and returns a
//! builder. The builder has
//!
//! * one method per option, which takes and returns the builder. A method that reads a file or
//!   parses text returns a [`Result`];
//! * `threads`, `on_progress` and `on_note`, and `overwrite` if it writes: the macro `call_options!`
//!   generates them over the field `call`. No verb changes a global thread pool, prints, or reads
//!   the environment;
//! * `plan(out)`, which fails for every foreseeable reason and returns the planned files ([`Planned`]
//!   for models), and `write(out)`, which is `plan(out)?.write()` and returns what was written
//!   ([`Written`]). A verb that only computes has `run()`.
//!
//! Errors are [`Error`]s with a [`Hint`] as data: the command words hints in terms of its options.
//! A [`Note`] is anything that a user might want to know about a success.
#![forbid(unsafe_code)]

mod content;
mod error;
#[cfg(feature = "files")]
mod find;
mod hint;
mod model;
#[cfg(feature = "files")]
mod note;
#[cfg(feature = "files")]
mod open;
#[cfg(feature = "files")]
mod output;
mod paths;
#[cfg(feature = "files")]
mod progress;
#[cfg(feature = "files")]
mod side_files;
mod verbs;

pub use error::{Error, Result};
#[cfg(feature = "files")]
pub use find::{find_files, find_models, group_shards, is_gguf_name, sibling_shards, walk};
pub use hint::Hint;
pub use model::{Model, Tensor, Tensors};
#[cfg(feature = "files")]
pub use note::{Loss, Note};
#[cfg(feature = "files")]
pub use open::{OpenOptions, refuse_interrupted};
#[cfg(feature = "files")]
pub use output::{Planned, Written, check_output, write_file};
pub use paths::display_path;
#[cfg(feature = "files")]
pub use progress::{Progress, Stage};
#[cfg(feature = "files")]
pub use side_files::{catalogue, read_architectures, read_bytes, read_patch, read_text};
pub use verbs::*;

pub use ggmill_core::{
    Alignment, Array, ByteSize, Endian, Entry, FileType, GgmlType, Limits, Metadata, MetadataBuf,
    RawStr, Shape, Value, ValueType, keys,
};

pub use ggmill_arch as arch;
pub use ggmill_check as check;
#[cfg(feature = "files")]
pub use ggmill_convert as convert;
pub use ggmill_core as core;
#[cfg(feature = "files")]
pub use ggmill_edit as edit;
#[cfg(feature = "files")]
pub use ggmill_edit::hash;
pub use ggmill_estimate as estimate;
pub use ggmill_inspect as inspect;
#[cfg(feature = "files")]
pub use ggmill_inspect::index;
#[cfg(feature = "files")]
pub use ggmill_io as io;
#[cfg(feature = "files")]
pub use ggmill_pipeline as pipeline;
#[cfg(feature = "files")]
pub use ggmill_pipeline::formats;
pub use ggmill_quant as quant;
#[cfg(feature = "files")]
pub use ggmill_quantize as quantize;
#[cfg(feature = "remote")]
pub use ggmill_remote as remote;
#[cfg(feature = "files")]
pub use ggmill_run as run;
pub use ggmill_template as template;
pub use ggmill_text as text;
pub use ggmill_tokenizer as tokenizer;

#![doc = include_str!("../README.md")]
//!
//! # Reading
//!
//! ```
//! # use ggmill_core::{Builder, MetadataBuf, Model};
//! # let mut metadata = MetadataBuf::new();
//! # metadata.set("general.architecture", "llama");
//! # metadata.set("tokenizer.ggml.tokens", ["<s>", "</s>"].as_slice());
//! # let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
//! let model = Model::open(file)?;
//! println!("{}", model.metadata().str("general.architecture")?);
//! for token in model.metadata().array("tokenizer.ggml.tokens")?.strings().into_iter().flatten() {
//!     println!("{}", token?);
//! }
//! # Ok::<(), ggmill_core::Error>(())
//! ```
//!
//! [`Model::open`] takes any source of bytes, a [`ReadAt`]; [`Gguf::parse`] takes borrowed bytes
//! that are in memory; those who get the bytes one after the other feed a [`Decoder`]. Either way
//! [`Limits`] and the length of the file bound what is believed, and an [`Error`] says what is
//! wrong, where, and about which key or tensor.
//!
//! # Writing
//!
//! Declare with a [`Builder`], lay out with [`Builder::plan`], stream with a [`Writer`].
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

extern crate alloc;

mod align;
mod byte_size;
mod bytes;
mod endian;
mod error;
mod file_name;
mod gguf;
mod index;
pub mod keys;
mod limits;
mod memory;
mod metadata;
mod model;
mod naming;
mod no_tensors;
mod read;
mod read_at;
mod shape;
mod shard;
mod shard_fault;
mod size_label;
mod tensor;
mod text;
mod types;
mod value;
mod write;

pub use align::Alignment;
pub use byte_size::ByteSize;
pub use endian::Endian;
pub use error::{Error, ErrorKind, Optional, Result, Subject};
pub use file_name::FileName;
pub use gguf::Gguf;
pub use index::Index;
pub use limits::Limits;
pub use metadata::{Entry, Metadata};
pub use model::{Model, Part};
pub use naming::{NamingError, suggested_file_name};
pub use no_tensors::NoTensors;
pub use read::{Decoder, Progress};
pub use read_at::ReadAt;
pub use shape::Shape;
pub use shard::{ShardName, Split, shard_file_name};
pub use size_label::size_label;
pub use tensor::{Tensor, Tensors};
pub use text::{RawStr, is_digits};
pub use types::{BlockLayout, FileType, GgmlType, UnknownName, ValueType, swap_bytes};
pub use value::{Array, Elements, Value};
pub use write::{
    Builder, FilledHeader, HeaderEdit, MetadataBuf, Plan, PlannedTensor, Sink, ToValue, WriteError,
    Writer,
};
